"""What only a machine with a GPU can show: `make bench-gpu`, or `python -m bench.gpu`. One GPU is enough.

- every all-reduce on NCCL, in a world of one: communicators, streams and events, against the bucket itself;
- stream order: a bucket that a kernel still writes when it is handed over, and one that is read right after the wait;
- gloo with CUDA tensors between 2 to 4 processes that share the GPU, against the mean in fp64;
- decoding by nvJPEG: against the CPU's pixels, equal bits in any batch, images a second by threads;
- images a second of ResNet-50, forward, backward and update in FP16 with channels_last, synthetic and from DALI.

On a machine without a GPU it says so in one line, and that nothing was checked.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from bench.gpu_checks import check_gloo, check_nccl
from bench.gpu_decoding import check_decoding, decoding_rates
from bench.resnet50 import measure


def main(arguments: Sequence[str]) -> int:
    """Check and measure; returns the exit code: 1 where a check failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    parser.add_argument("--batch", type=int, default=128, help="images an update of ResNet-50")
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 3, 4], help="sharing the GPU over gloo")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("no GPU here (torch.cuda.is_available() is false): nothing was checked; run this on a machine with one")
        return 0
    checks = check_nccl() + [row for processes in options.processes for row in check_gloo(processes)]
    decoding, rates = check_decoding(), decoding_rates()
    speeds = measure(options.batch)
    report(checks, speeds)
    report_decoding(decoding, rates)
    if options.json:
        rows = {"checks": checks, "decoding": decoding, "decoding_rates": rates, "speeds": speeds}
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["right"] for row in [*checks, *decoding]) else 1


def report_decoding(checks: Sequence[dict[str, Any]], rates: Sequence[dict[str, Any]]) -> None:
    """What was checked, a line each, and a table."""
    console = Console(highlight=False)
    for row in checks:
        console.print(f"decoding: {row['check']}: {'right' if row['right'] else 'WRONG'}")
    table = Table(title="Decoding to 224 pixels", title_justify="left")
    for name in ("decoded on", "threads", "images/s", "images/CPU-s"):
        table.add_column(name, justify="left" if name == "decoded on" else "right")
    for row in rates:
        figures = f"{row['images_per_s']:,.0f}", f"{row['images_per_cpu_s']:,.0f}"
        table.add_row(row["decoded on"], str(row["threads"]), *figures)
    console.print(table)


def report(checks: Sequence[dict[str, Any]], speeds: Sequence[dict[str, Any]]) -> None:
    """Two tables."""
    console = Console(highlight=False)
    table = Table(title=torch.cuda.get_device_name(0), title_justify="left")
    for name in ("check", "all-reduces", "wrong"):
        table.add_column(name)
    for what in dict.fromkeys(row["check"] for row in checks):
        rows = [row for row in checks if row["check"] == what]
        wrong = sorted({f"{row['algorithm']} ({row['elements']})" for row in rows if not row["right"]})
        table.add_row(what, str(len({row["algorithm"] for row in rows})), ", ".join(wrong) or "none")
    console.print(table)
    table = Table(title="ResNet-50, 224 pixels, FP16, channels_last", title_justify="left")
    for name in ("images from", "batch", "update, ms", "images/s", "of synthetic"):
        table.add_column(name, justify="left" if name == "images from" else "right")
    for row in speeds:
        share = row["images_per_s"] / speeds[0]["images_per_s"]
        figures = (f"{1000 * row['update_s']:.1f}", f"{row['images_per_s']:,.0f}", f"{share:.2f}")
        table.add_row(row["images_from"], str(row["batch"]), *figures)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
