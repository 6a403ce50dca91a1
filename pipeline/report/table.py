"""A table as data, for HTML and Markdown alike: each column is of one kind, so that figures of two kinds never mix.

Pure; torch-free.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Kind = Literal["", "recipe", "published", "measured", "estimated", "scale model"]
"""Where a column's figures come from; "": it names the row."""


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind = ""
    is_number: bool = True


@dataclass(frozen=True)
class Cell:
    """What stands in a place; empty where nothing was run or nothing is known."""

    text: str = ""
    is_rebuilt: bool = False
    """Whether it is our best justified value and not the paper's."""


@dataclass(frozen=True)
class Table:
    key: str
    """A name for links: `table-1`."""
    title: str
    note: str
    """What a reader must know of it."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    """The first cell names the row."""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), self.title

    def kinds(self) -> list[tuple[Kind, int]]:
        """Neighbouring columns of a kind, with how many they are."""
        return [(kind, len(list(of))) for kind, of in groupby(column.kind for column in self.columns)]


def row(*cells: Cell | str) -> tuple[Cell, ...]:
    """Cells of a row; a text is a cell that nobody rebuilt."""
    return tuple(Cell(one) if isinstance(one, str) else one for one in cells)


def columns(kind: Kind, *names: str) -> list[Column]:
    """Columns of figures of one kind."""
    return [Column(name, kind) for name in names]


def texts(kind: Kind, *names: str) -> list[Column]:
    """Columns of words of one kind."""
    return [Column(name, kind, is_number=False) for name in names]


def made(key: str, title: str, note: str, of: Sequence[Column], rows: Sequence[tuple[Cell, ...]]) -> Table:
    return Table(key, title, note, tuple(of), tuple(rows))
