"""How long the estimate takes: `python -m bench.estimate`; all grids of 100,000 GPUs, and the whole command."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from pipeline.estimate.algorithms import legal_grids
from pipeline.estimate.network import Level, Network

NETWORK = Network(Level(50e9, 1e-6), Level(25e9, 3e-6), Level(34 * 25e9 / 3, 5e-6), nodes_per_rack=34)
GPUS = (2_176, 98_280, 100_000)
"""The paper's; the number below 100,000 with the most grids; the largest that the estimate is meant for."""
REPEATS = 5
COMMAND = ("exp=exp2", "site=abci", "format=json")


def main() -> int:
    table = Table(title="the estimate's own time", title_justify="left")
    for name in ("what", "median, s"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for gpus in GPUS:
        nodes = np.arange(gpus) // 4
        count = len(legal_grids(gpus, nodes, NETWORK, 25e6))
        table.add_row(
            f"all {count} grids of {gpus:,} GPUs",
            f"{median_s(partial(legal_grids, gpus, nodes, NETWORK, 25e6)):.3f}",
        )
    command = [sys.executable, "-m", "jobs.estimate", *COMMAND]
    table.add_row(
        f"make estimate, {' '.join(COMMAND)}",
        f"{median_s(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)):.3f}",
    )
    Console(highlight=False).print(table)
    return 0


def median_s(what: Callable[[], object]) -> float:
    """Of a few calls."""
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        what()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    sys.exit(main())
