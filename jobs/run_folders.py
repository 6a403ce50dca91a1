"""Which run folders there are: those below a folder, sweeps' included, or those that a user names. Torch-free."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.errors import UserError
from pipeline.run_folder import RunFolder

DEEPEST = 4
"""Levels below runs/ that are looked through; a link that leads back up ends there too."""


def chosen(names: Sequence[str], runs: Path) -> list[RunFolder]:
    """The run folders that `names` are or hold, else all below `runs`: each once, by its own name rather than a link's.

    A name may be a broken run folder: it is there, and what reads it tells. Raises UserError for one that is not there.
    """
    for name in names:
        try:
            there = Path(name).is_dir()
        except OSError as error:
            raise UserError(f"{name} cannot be read: {error.strerror}") from None
        if not there:
            raise UserError(f"{name}: no such run folder")
    found = [path for name in names for path in (list(_below(Path(name))) or [Path(name)])] if names else _below(runs)
    order = sorted(found, key=lambda path: (-_links(path), -len(path.parts), path))  # of two names the last one stays
    once = {path.resolve(): path for path in order}
    return [RunFolder(path) for path in sorted(once.values())]


def _links(path: Path) -> int:
    """How many of its parts are links."""
    return sum(one.is_symlink() for one in (path, *path.parents))


def _below(folder: Path, depth: int = 0) -> Iterator[Path]:
    """`folder` where it is a run's, else the run folders in it; a folder that goes away meanwhile has none.

    One that cannot be read may be a run's: whoever reads it tells.
    """
    try:
        if is_of_a_run(RunFolder(folder)):
            yield folder
            return
        inner = sorted(entry.path for entry in os.scandir(folder) if _is_folder(entry))
    except PermissionError:
        yield folder
        return
    except OSError:
        return
    for path in inner if depth < DEEPEST else ():
        yield from _below(Path(path), depth + 1)


def is_of_a_run(folder: RunFolder) -> bool:
    """Whether attempts or two files of a run are in it: one that lacks its configuration is found too.

    One file alone is none: other folders have a config.yaml.
    """
    files = (folder.config, folder.overrides, folder.script, folder.submissions, folder.metrics, folder.result)
    return folder.attempts.is_dir() or sum(file.exists() for file in files) > 1


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """A link that leads nowhere, or in a circle, is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False
