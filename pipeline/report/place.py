"""Where a report lies: the names of its files, and what an earlier one left. Torch-free."""

from collections.abc import Collection
from pathlib import Path

from pipeline.errors import UserError

PAGE = "report.html"
TEXT = "report.md"
FIGURES = ("figure-3-full-size", "figure-3-scale-models", "scaling")
"""Each is an SVG and a PNG."""


def is_report(folder: Path) -> bool:
    """Whether a report of ours lies in `folder`."""
    try:
        return all((folder / name).is_file() for name in (PAGE, TEXT))
    except OSError:  # it may not be looked into
        return False


def check_free(folder: Path) -> None:
    """Raise UserError where a folder stands in the place of a file of the report."""
    for path in (folder / PAGE, folder / TEXT, *(one for key in FIGURES for one in pictures(folder, key))):
        if path.is_dir():
            raise UserError(f"{path} is a folder, and the report writes a file there; name another report.dir=")


def remove_others(folder: Path, drawn: Collection[str]) -> None:
    """Remove the figures of an earlier report of which this one has none: they would pass for its own."""
    for key in FIGURES:
        for path in pictures(folder, key) if key not in drawn else ():
            path.unlink(missing_ok=True)


def pictures(folder: Path, key: str) -> tuple[Path, Path]:
    return folder / f"{key}.svg", folder / f"{key}.png"
