"""The table of faults: tests leave rows, `python -m tests.faults.table ROWS DOCUMENT` writes them into a document.

A test that causes a fault leaves its row in the file that TORUS224_FAULTS names, where it is set: what was done, what
the user saw, how long it took. `make faults` does both.
"""

import json
import os
import re
import socket
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pipeline.report.markdown import escaped, put_between

BEGIN, END = "<!-- faults: written by make faults -->", "<!-- end of faults -->"
HEAD = "| fault | what the user sees | time to stop | updates lost | started again |\n|---|---|---:|---:|---|"

NONE = "–"  # noqa: RUF001

VARYING = (
    (r"process \d+", "process P"),
    (r"(?<=update )\d+|(?<=update-)\d{6}", "N"),
    (rf"\b{re.escape(socket.gethostname())}\b", "HOST"),
    (r"(?<=\]:)\d+", "PORT"),
    (r"for \d+(?:\.\d+)? s\b", "for T s"),
    (r"(?<![\w.])/(?:[^\s/]+/)+(?=run\b|data\b)", ""),
    (r"\brank \d was in", "rank R was in"),
    (r"^(error: )?rank \d:", r"\1rank R:"),
)
"""What differs from run to run in a line, and how the document has it."""


@dataclass(frozen=True)
class Row:
    """What became of one fault."""

    fault: str
    seen: str
    """The line that was printed."""
    stop_s: float | None
    """From the fault to the end of everything; None where the run goes on."""
    lost_updates: int | None
    """Done before the end, and not in the checkpoint that the run goes on from; None where nothing had begun."""
    again: str
    """How it was started again, and what came of it."""


def note(row: Row) -> None:
    """Leave a row."""
    path = os.environ.get("TORUS224_FAULTS")
    if path:
        with Path(path).open("a") as file:
            file.write(json.dumps(asdict(replace(row, seen=steady(row.seen)))) + "\n")


def rows(path: Path) -> list[Row]:
    """The rows of a file, each fault once, as it was found last; by name."""
    found = [Row(**json.loads(line)) for line in path.read_text().splitlines()]
    return sorted({row.fault: row for row in found}.values(), key=lambda row: row.fault)


def steady(line: str) -> str:
    """A printed line without what differs from run to run."""
    for pattern, word in VARYING:
        line = re.sub(pattern, word, line)
    return line


def table(of: list[Row]) -> str:
    """Markdown."""
    lines = [HEAD]
    for row in of:
        stop = NONE if row.stop_s is None else f"{row.stop_s:.0f} s"
        lost = NONE if row.lost_updates is None else str(row.lost_updates)
        lines.append(f"| {row.fault} | {escaped(row.seen)} | {stop} | {lost} | {row.again} |")
    return "\n".join(lines)


def main(rows_file: str, document: str) -> None:
    """Write the table of a file of rows into a document."""
    path = Path(document)
    path.write_text(put_between(path.read_text(), BEGIN, END, table(rows(Path(rows_file)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
