"""All all-reduces, and Open MPI's own, on hosts with links of a known rate: `make bench-network`. Root.

Four hosts of four workers each from network namespaces, links of 100 Mbit/s, then 200 Mbit/s with 10 ms round trip;
last, how much of the averaging a backward pass hides. On links so slow that they, and not this machine's cores, are
what is measured, the ratio to the physical bound says what an algorithm is worth.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import mpi_peers
from bench.allreduce import COLUMNS
from bench.allreduce_options import algorithms, check_files, sizes_mb
from bench.emulated_hosts import EmulatedHosts, mpirun_command
from bench.modelled import print_model
from bench.overlap import Overlap
from bench.rows import Row, print_rows, print_sweep
from jobs import local
from pipeline.config.checks import ALL_REDUCES
from pipeline.errors import UserError

NODES, WORKERS_PER_NODE = 4, 4


def main(arguments: Sequence[str]) -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    parser.add_argument("--plot", type=Path, help="draw time over size at 100 Mbit/s into this file (.png or .svg)")
    parser.add_argument("--sizes", default="1,10,50", help="MB at 100 Mbit/s")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--algorithms", help="names, separated by commas; default: all")
    parser.add_argument("--no-peers", action="store_true", help="leave out Open MPI's own all-reduces")
    options = parser.parse_args(arguments)
    try:
        sizes_mb("--sizes", options.sizes)
        if options.algorithms:
            algorithms(options.algorithms)
        if options.repeats < 1:
            raise UserError(f"--repeats {options.repeats}: must be at least 1")
        check_files(options.json, options.plot)
        rows, overlaps = measure(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    report(rows, overlaps, options)
    return 0


def measure(options: argparse.Namespace) -> tuple[list[Row], list[Overlap]]:
    """Everything, one after another; this takes about a quarter of an hour."""
    chosen = ["--algorithms", options.algorithms] if options.algorithms else []
    words = ["--grid", "4x4", "--repeats", str(options.repeats), *chosen]
    sizes_bytes = [round(float(size) * 1e6) for size in options.sizes.split(",")]
    rows: list[Row] = []
    with EmulatedHosts(NODES, 100e6) as hosts:
        rows += ours(hosts, ["--sizes", options.sizes, *words])
        if not options.no_peers:
            print("Open MPI's own all-reduces …", file=sys.stderr, flush=True)
            rows += mpi_peers.measure(hosts, WORKERS_PER_NODE, sizes_bytes, repeats=options.repeats)
        overlaps = [overlap(hosts, algorithm) for algorithm in ("torus", "native")]
    with EmulatedHosts(NODES, 200e6, round_trip_s=0.010) as hosts:
        if not options.algorithms:
            words += ["--algorithms", ",".join((*ALL_REDUCES, "ring-ahead"))]
        rows += ours(hosts, ["--sizes", "0.4", *words])
    return rows, overlaps


def ours(hosts: EmulatedHosts, words: Sequence[str]) -> list[Row]:
    """Our all-reduces, and the backend's, on these hosts."""
    link = ["--rate", str(hosts.rate_bit_per_s), "--delay", str(hosts.round_trip_s / 2)]
    command = ["-m", "bench.allreduce", *words, *link, "--interface", hosts.interface]
    found = run(hosts, WORKERS_PER_NODE, command, limit_s=1800)
    names = set(Row.__dataclass_fields__)
    return [
        Row(**{name: value for name, value in row.items() if name in names} | {"sweep_s": _sizes(row["sweep_s"])})
        for row in found
    ]


def overlap(hosts: EmulatedHosts, algorithm: str) -> Overlap:
    """DDP on one worker a host."""
    print(f"overlap with the backward pass, {algorithm} …", file=sys.stderr, flush=True)
    words = ["--algorithm", algorithm, "--rate", str(hosts.rate_bit_per_s), "--interface", hosts.interface]
    found = run(hosts, 1, ["-m", "bench.overlap", *words], limit_s=600)
    return Overlap(**{name: found[name] for name in Overlap.__dataclass_fields__})


def run(hosts: EmulatedHosts, workers_per_node: int, words: Sequence[str], *, limit_s: float) -> Any:
    """Run a bench's ranks; what the first one wrote to its --json."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "found.json"
        command = mpirun_command(
            hosts,
            workers_per_node,
            [sys.executable, *words, "--json", str(path)],
            environment={"TORUS224_EMULATED_HOSTS": "1"},
        )
        environment = local.environment() | {"OMP_NUM_THREADS": "1"}
        try:
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=limit_s, check=True)
        except subprocess.TimeoutExpired:
            raise UserError(f"{words[1]} did not end in {limit_s:.0f} s; give smaller --sizes") from None
        except subprocess.CalledProcessError as error:
            raise UserError(f"{words[1]} ended with code {error.returncode}; its own words stand above") from None
        return json.loads(path.read_text())


def report(rows: Sequence[Row], overlaps: Sequence[Overlap], options: argparse.Namespace) -> None:
    """Print the tables, write what was asked for."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else COLUMNS)
    for rate, delay in dict.fromkeys((row.rate_bit_per_s, row.delay_s) for row in rows):
        some = [row for row in rows if (row.rate_bit_per_s, row.delay_s) == (rate, delay)]
        print_rows(console, heading(some[0]), some)
        print_sweep(console, some)
        if delay:
            console.print(latency_words(some))
    print_model(console, rows)
    print_overlaps(console, overlaps)
    if options.json:
        found = [row.as_json() for row in rows] + [one.as_json() for one in overlaps]
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.plot:
        from bench.plot import draw

        some = [row for row in rows if not row.delay_s]
        draw(some, heading(some[0]), options.plot)


def heading(row: Row) -> str:
    """Placement and link of a table's rows."""
    rate = f"{(row.rate_bit_per_s or 0) / 1e6:g} Mbit/s a node"
    delay = f", {2000 * row.delay_s:g} ms round trip" if row.delay_s else ""
    return (
        f"{row.nodes} nodes x {row.workers_per_node} workers, ranks node by node, TCP, {rate}{delay}; "
        f"medians of {row.repeats} and more"
    )


def latency_words(rows: Sequence[Row]) -> str:
    """Where others are as fast as the torus, or faster, when steps cost more than bytes."""
    times = {row.algorithm: row.time_s for row in rows}
    torus = times.get("torus")
    if torus is None:
        return ""
    quicker = [
        f"{name} ({1000 * time_s:.0f} ms)"
        for name, time_s in sorted(times.items(), key=lambda item: item[1])
        if name != "torus" and time_s <= torus * 1.02
    ]
    ring = f"; the flat ring takes {times['ring'] / torus:.2f} times as long" if "ring" in times else ""
    return f"as fast as the torus ({1000 * torus:.0f} ms) or faster: {', '.join(quicker) or 'none'}{ring}"


def print_overlaps(console: Console, overlaps: Sequence[Overlap]) -> None:
    """Exposed and total communication."""
    table = Table(title="overlap with the backward pass, one worker a node, 100 Mbit/s", title_justify="left")
    table.add_column("all-reduce")
    names = ("gradients, MB", "buckets", "compute, s", "communication, s", "exposed, s", "exposed", "update, s")
    for name in names:
        table.add_column(name, justify="right")
    for one in overlaps:
        figures = (one.compute_s, one.communication_s, one.exposed_s)
        table.add_row(
            one.algorithm,
            f"{one.model_bytes / 1e6:.3g} ({one.dtype})",
            str(one.buckets),
            *(f"{figure:.2f}" for figure in figures),
            f"{100 * one.exposed_share:.0f} %",
            f"{one.update_s:.2f}",
        )
    console.print(table)


def _sizes(sweep: dict[str, float]) -> dict[int, float]:
    """JSON's keys are words."""
    return {int(size): time_s for size, time_s in sweep.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
