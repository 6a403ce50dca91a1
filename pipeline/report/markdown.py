"""The report as Markdown. Pure; torch-free."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from pipeline.errors import UserError
from pipeline.report.table import Cell, Table
from pipeline.wording import printable

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


def put_between(document: str, begin: str, end: str, content: str) -> str:
    """`document` with `content` between two marks of it, which stay. Raises UserError where they are not in it."""
    before, found, rest = document.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise UserError(f"the document has no {begin} … {end}")
    return f"{before}{begin}\n\n{content.strip()}\n\n{end}{after}"


def escaped(text: str) -> str:
    """`text` as Markdown that shows it, on one line: a run folder's name may hold anything."""
    plain = re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", printable(text))
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cell(cell: Cell) -> str:
    return escaped(cell.text) + (REBUILT if cell.is_rebuilt and cell.text else "")


def _line(cells: "Iterator[str] | map[str]") -> str:
    return f"| {' | '.join(cells)} |"
