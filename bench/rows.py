"""A line of an all-reduce's table, in nccl-tests' words, and the table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

TCP_HEADERS = 1514 / 1448
"""Bytes on an Ethernet link for a byte of a TCP stream: frames of 1500 bytes, time stamps on."""


@dataclass(frozen=True)
class Row:
    """One all-reduce of one size."""

    algorithm: str
    nodes: int
    workers_per_node: int
    rate_bit_per_s: float | None
    """Of each node's link and direction; None: not known."""
    delay_s: float
    """From one node to another, one way; half a round trip."""
    dtype: str
    size_bytes: int
    repeats: int
    time_s: float
    """Median over the repeats of the slowest worker's time."""
    bound_s: float | None
    """What no algorithm can be faster than; None where the links' rate is not known."""
    link_bytes: int | None
    """Sent over the busiest node's link in one all-reduce, with all headers; None: no link."""
    cpu_share: float
    """Processor time of all workers, of what all cores of all machines have."""
    theory_bytes: int | None = None
    """The same without headers, by the algorithm's own arithmetic; None: not known."""
    grid: str = ""
    chunk_bytes: int | None = None
    """Largest chunk; None: the algorithm is not ours to cut."""
    sweep_s: dict[int, float] = field(default_factory=dict)
    """Chunk sizes that were tried, and what each took."""
    wrong: int = 0
    """Elements that are not the mean."""

    @property
    def workers(self) -> int:
        return self.nodes * self.workers_per_node

    @property
    def algbw(self) -> float:
        """Bytes a second of the buffer, as nccl-tests has it."""
        return self.size_bytes / self.time_s

    @property
    def busbw(self) -> float:
        """algbw * 2(n-1)/n: what a link would carry, whatever the number of workers (nccl-tests, PERFORMANCE.md)."""
        return self.algbw * 2 * (self.workers - 1) / self.workers

    @property
    def times_bound(self) -> float | None:
        return self.time_s / self.bound_s if self.bound_s else None

    def as_json(self) -> dict[str, Any]:
        """Every field, and what follows from them."""
        more = {"workers": self.workers, "algbw": self.algbw, "busbw": self.busbw, "times_bound": self.times_bound}
        return asdict(self) | more


def bound_s(nodes: int, size_bytes: int, rate_bit_per_s: float | None) -> float | None:
    """What the links need for an all-reduce of `size_bytes`: each sends 2 (nodes - 1) / nodes of the buffer."""
    if rate_bit_per_s is None or nodes < 2:
        return None
    return 2 * (nodes - 1) / nodes * size_bytes * 8 / rate_bit_per_s


def print_rows(console: Console, title: str, rows: Sequence[Row]) -> None:
    """The table, by size and then by time."""
    console.print(title)
    table = Table()
    table.add_column("all-reduce", no_wrap=True)
    columns = ("size, MB", "type", "chunk, MB", "time, ms", "algbw, MB/s", "busbw, MB/s", "x bound")
    for name in (*columns, "link, x size", "theory", "own CPU", "wrong"):
        table.add_column(name, justify="right")
    for size in sorted({row.size_bytes for row in rows}):
        for row in sorted((row for row in rows if row.size_bytes == size), key=lambda row: row.time_s):
            theory = None if row.theory_bytes is None else row.theory_bytes * TCP_HEADERS
            table.add_row(
                row.algorithm,
                f"{size / 1e6:g}",
                row.dtype,
                "-" if row.chunk_bytes is None or row.chunk_bytes >= size else f"{row.chunk_bytes / 1e6:.3g}",
                f"{1000 * row.time_s:.4g}",
                f"{row.algbw / 1e6:.3g}",
                f"{row.busbw / 1e6:.3g}",
                _number(row.times_bound, "{:.3f}"),
                _number(row.link_bytes, "{:.3f}", size),
                _number(theory, "{:.3f}", size),
                f"{100 * row.cpu_share:.0f} %",
                str(row.wrong),
            )
        table.add_section()
    console.print(table)


def print_sweep(console: Console, rows: Sequence[Row]) -> None:
    """Every chunk size that was tried."""
    table = Table(title="chunk sizes tried: MB (ms)", title_justify="left")
    for name in ("all-reduce", "size, MB", "chunks"):
        table.add_column(name)
    for row in rows:
        if len(row.sweep_s) > 1:
            tried = "  ".join(f"{chunk / 1e6:.3g} ({1000 * time_s:.4g})" for chunk, time_s in row.sweep_s.items())
            table.add_row(row.algorithm, f"{row.size_bytes / 1e6:g}", tried)
    if table.row_count:
        console.print(table)


def _number(value: float | None, form: str, unit: float = 1.0) -> str:
    return "-" if value is None else form.format(value / unit)
