"""Which run folders there are: those below a folder, sweeps' included, or those that a user names. Torch-free."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.errors import UserError
from pipeline.run_folder import RunFolder

DEEPEST = 4
"""Levels below runs/ that are looked through; a link that leads back up ends there too."""


def chosen(names: Sequence[str], runs: Path) -> list[RunFolder]:
    """The run folders that `names` are or hold, else all below `runs`: each once, by name.

    A name may be a broken run folder: it is there, and what reads it tells. Raises UserError for one that is not there.
    """
    for name in names:
        if not Path(name).is_dir():
            raise UserError(f"{name}: no such run folder")
    found = [path for name in names for path in (list(_below(Path(name))) or [Path(name)])] if names else _below(runs)
    once = {path.resolve(): path for path in sorted(found, key=lambda path: (-len(path.parts), path))}
    return [RunFolder(path) for path in sorted(once.values())]


def _below(folder: Path, depth: int = 0) -> Iterator[Path]:
    """`folder` where it is a run's, else the run folders in it; a folder that goes away meanwhile has none."""
    if _is_of_a_run(RunFolder(folder)):
        yield folder
        return
    try:
        inner = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return
    for path in inner if depth < DEEPEST else ():
        yield from _below(Path(path), depth + 1)


def _is_of_a_run(folder: RunFolder) -> bool:
    """Whether anything of a run is in it, so that a run folder without its configuration is found too."""
    marks = (folder.config, folder.attempts, folder.script, folder.submissions, folder.metrics, folder.result)
    return any(mark.exists() for mark in marks)
