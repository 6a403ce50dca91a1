"""The report as Markdown. Pure; torch-free."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from pipeline.report.table import Cell, Table

REBUILT = "†"


def table_lines(table: Table) -> Iterator[str]:
    """A table's heading, note and rows. A column's kind stands before its name, since Markdown has one row of names."""
    yield from (f"## {escaped(table.title)}", "", escaped(table.note), "")
    names = [f"{column.kind}: {column.name}" if column.kind else column.name for column in table.columns]
    yield _line(map(escaped, names))
    yield _line("---:" if column.is_number else "---" for column in table.columns)
    for row in table.rows:
        yield _line(map(_cell, row))
    yield ""


def page(title: str, lines: Sequence[str], tables: Sequence[Table], pictures: Sequence[tuple[str, str]]) -> str:
    """The whole page. lines: what is said first. pictures: (file, what it shows in words)."""
    parts = chain(
        (f"# {escaped(title)}", ""),
        chain.from_iterable((escaped(line), "") for line in lines),
        chain.from_iterable(table_lines(table) for table in tables),
        chain.from_iterable((f"![{escaped(words)}]({file})", "") for file, words in pictures),
    )
    return "\n".join(parts).rstrip() + "\n"


def escaped(text: str) -> str:
    """`text` as Markdown that shows it, on one line: a run folder's name may hold anything."""
    printable = "".join(one if one.isprintable() else " " for one in text)
    plain = re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", printable)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cell(cell: Cell) -> str:
    return escaped(cell.text) + (REBUILT if cell.is_rebuilt and cell.text else "")


def _line(cells: "Iterator[str] | map[str]") -> str:
    return f"| {' | '.join(cells)} |"
