"""What ImageNet takes on each node, by placement: `python -m bench.placement`.

Nothing is measured: the sums are those that a run works out before it reads anything (`pipeline.data.sources`), on an
index as large as ILSVRC2012's (1,281,167 training images of 148 GB, 50,000 of 6.7 GB to validate) with made-up sizes of
single images, for Exp. 5 with four workers a node.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.data.epochs import Epochs
from pipeline.data.sources import largest, make_schedule, of_partitioned
from pipeline.evaluate import OneProcess

TRAIN, TRAIN_BYTES = 1_281_167, 147.9e9
VALIDATION_BYTES = 6.74e9
WORKERS_PER_NODE = 4
NODES = (1, 2, 4, 17, 68, 272, 544)
"""Such that Exp. 5's 2176 workers can be dealt to them."""
EPOCHS = 90
PROBES = (0, 29, 59, 89)
"""Epochs that are looked at; a run looks at all of them, a worker at one or a few."""


def main(arguments: list[str]) -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    options = parser.parse_args(arguments)
    random = np.random.default_rng(0)
    size = random.lognormal(0, 0.6, TRAIN)
    rows = [of_nodes(nodes, (size * TRAIN_BYTES / size.sum()).astype(np.int64)) for nodes in NODES]
    table = Table(title="ImageNet in memory, GB, Exp. 5 with four workers a node", title_justify="left")
    for name in ("nodes", "replicated, a node", "partitioned, a node", "read in all: replicated", "partitioned",
                 "exchanged an epoch, a node", "rounds"):  # fmt: skip
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(f"{value:,.4g}" if value is not None else "" for value in row.values()))
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def of_nodes(nodes: int, size: NDArray[np.int64]) -> dict[str, Any]:
    """A line of the table. size: bytes of every training image."""
    workers = nodes * WORKERS_PER_NODE
    config = compose(["exp=exp5", "scale=null", f"workers={workers}", "data=imagenet", "data.path=/", "model=resnet50"])
    layout = tuple(tuple(range(node * WORKERS_PER_NODE, (node + 1) * WORKERS_PER_NODE)) for node in range(nodes))
    validated = VALIDATION_BYTES / nodes
    whole = float(size.sum())
    row: dict[str, Any] = {"nodes": nodes, "replicated": (whole + validated) / 1e9, "partitioned": None}
    row |= {"read_replicated": (nodes * whole + VALIDATION_BYTES) / 1e9, "read_partitioned": None}
    row |= {"exchanged": None, "rounds": None}
    if nodes > 1:
        epochs = Epochs(0, make_plan(config), layout)
        schedules = [make_schedule(config.data, epochs, range(epoch, epoch + 1), size) for epoch in PROBES]
        limits = [largest(schedule, OneProcess()) for schedule in schedules]
        total = max(of_partitioned(limit, 0, int(validated))[0] for limit in limits)
        row |= {"partitioned": total / 1e9, "read_partitioned": (whole + VALIDATION_BYTES) / 1e9}
        row |= {"exchanged": max(limit.slot for limit in limits) / 1e9, "rounds": schedules[0].rounds}
    return row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
