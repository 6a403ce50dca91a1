"""The exchange of samples between nodes: `make bench-exchange`, or `python -m bench.exchange`.

Three questions, each answered between real MPI ranks of this machine that stand for nodes:

    rate      bytes a second of the exchange (it packs, sleeps between questions, and fills a slot) against MPI's
              blocking Alltoallv alone, between the same ranks, with the same counts and buffers that are packed already
    memory    what a node's process takes at its peak over three exchanges, against what placement announced
    epoch     an epoch of the scale model with samples partitioned over two nodes, against the same with all on each

What is compared runs in turn, block by block; medians count.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from jobs import compose, local
from pipeline.config import make_plan, save
from pipeline.run_folder import RunFolder

NODES = (2, 4)
UNITS = {"rate": "MB/s", "memory": "MB", "epoch": "ms"}
GOALS = {"rate": "at least 0.60", "memory": "0.85 to 1.15", "epoch": "at most 1.05"}


def main(arguments: list[str]) -> int:
    """Start the ranks, print their table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    parser.add_argument("--megabytes", type=int, default=200, help="of samples on each node, for rate and memory")
    parser.add_argument("--blocks", type=int, default=7, help="of each kind; an epoch's are twice as many")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        rows = [row for nodes in NODES for row in rates(Path(scratch), nodes, options.megabytes, options.blocks)]
        rows += epochs(Path(scratch) / "run", 2 * options.blocks)
    print_rows(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def rates(scratch: Path, nodes: int, megabytes: int, blocks: int) -> list[dict[str, Any]]:
    """Rate and memory between so many nodes."""
    out = scratch / f"rates-{nodes}.json"
    words = ["--data", str(scratch / f"data-{nodes}"), "--megabytes", str(megabytes), "--blocks", str(blocks)]
    return start(nodes, ["bench.exchange_rate", *words, "--out", str(out)], out)


def epochs(path: Path, blocks: int) -> list[dict[str, Any]]:
    """An epoch's training with both placements."""
    folder = RunFolder.create(path)
    config = compose.compose(["exp=exp5", "run.validate_every_epochs=0", "run.checkpoint_every_updates=1000000"])
    save(config, folder.config)
    out = path / "rows.json"
    return start(make_plan(config).workers, ["bench.exchange_epoch", str(path), "--blocks", str(blocks)], out)


def start(ranks: int, program: list[str], out: Path) -> list[dict[str, Any]]:
    """Run a module on so many ranks; the rows that it left in `out`."""
    command = local.launch_command(ranks, [sys.executable, "-m", *program])
    subprocess.run(command, check=True, env=local.environment() | {"OMP_NUM_THREADS": "1"})
    rows: list[dict[str, Any]] = json.loads(out.read_text())
    return rows


def print_rows(rows: list[dict[str, Any]]) -> None:
    """The table."""
    title = f"The exchange between ranks that stand for nodes, {os.cpu_count()} cores"
    table = Table(title=title, title_justify="left")
    for name in ("what", "nodes", "ours", "peer", "unit", "ratio", "goal"):
        table.add_column(name, justify="left" if name in ("what", "unit", "goal") else "right")
    for row in rows:
        figures = f"{row['ours']:,.0f}", f"{row['peer']:,.0f}", UNITS[row["what"]], f"{row['ratio']:.2f}"
        table.add_row(f"{row['what']}, against {row['against']}", str(row["nodes"]), *figures, GOALS[row["what"]])
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
