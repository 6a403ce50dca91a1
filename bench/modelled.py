"""What the estimate's model says of rows that were measured on emulated hosts, from the links' settings alone."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.rows import TCP_HEADERS, Row
from pipeline.estimate.algorithms import estimate
from pipeline.estimate.network import Level, Network

PORT_BYTES_PER_S = 1e12
"""In a host nothing is shaped."""
MODELLED = ("torus", "ring", "hierarchical", "multicolor", "tree")


def modelled_s(row: Row) -> float:
    """Seconds by the model, in the row's own chunks.

    A message takes a whole round trip: gloo's receiver first says that it is ready.
    """
    assert row.rate_bit_per_s is not None
    uplink = Level(row.rate_bit_per_s / 8 / TCP_HEADERS, 2 * row.delay_s)
    vertical, horizontal = map(int, row.grid.split("x"))
    nodes = np.arange(vertical * horizontal) // row.workers_per_node
    network = Network(Level(PORT_BYTES_PER_S, 0.0), uplink)
    chunks = max(1, -(-row.size_bytes // (row.chunk_bytes or row.size_bytes)))
    return estimate(row.algorithm, row.size_bytes, (vertical, horizontal), nodes, network).pipelined_s(chunks)


def print_model(console: Console, rows: Sequence[Row]) -> None:
    """Measured and modelled side by side."""
    table = Table(title="the estimate's model beside it, from the links' settings alone", title_justify="left")
    table.add_column("all-reduce")
    for name in ("MB", "round trip, ms", "measured, ms", "model, ms", "misfit"):
        table.add_column(name, justify="right")
    for row in rows:
        if row.algorithm in MODELLED and row.rate_bit_per_s is not None:
            model_s = modelled_s(row)
            figures = (f"{row.size_bytes / 1e6:g}", f"{2000 * row.delay_s:g}", f"{1e3 * row.time_s:.1f}")
            table.add_row(row.algorithm, *figures, f"{1e3 * model_s:.1f}", f"{100 * (model_s / row.time_s - 1):+.1f} %")
    console.print(table)
