"""Which of a folder's folders are its splits, by the names that are usual, whatever their case."""

from collections.abc import Iterable
from pathlib import Path

from pipeline.data.prepare.source import TRAIN, VALIDATION
from pipeline.errors import UserError

NAMES = {TRAIN: ("train", "training"), VALIDATION: ("val", "valid", "validation")}
NO_SPLIT_OF_OURS = ("test", "testing")
"""Usual names of what is kept for the end; its labels are mostly not handed out."""


def split_folders(folder: Path) -> dict[str, Path]:
    """The folders of the splits; that of training is `folder` itself where none is named as a split.

    Raises UserError for two folders of one split, and for one of a split without one to train on.
    """
    folders = visible_folders(folder)
    found = {split: [path for path in folders if path.name.lower() in names] for split, names in NAMES.items()}
    for split, paths in found.items():
        if len(paths) > 1:
            raise UserError(f"{folder} has {paths[0].name}/ and {paths[1].name}/, both {split}; one of them must go")
    if found[TRAIN]:
        return {split: paths[0] for split, paths in found.items() if paths}
    others = [path for path in folders if path.name.lower() in (*NAMES[VALIDATION], *NO_SPLIT_OF_OURS)]
    if others:
        raise UserError(
            f"{folder} has {others[0].name}/ and no train/ beside it; name the folder with the training images train, "
            f"or rename {others[0].name} if it is a class"
        )
    return {TRAIN: folder}


def with_splits(folder: Path) -> Iterable[Path]:
    """A folder and those in it that are named as splits."""
    known = {name for names in NAMES.values() for name in names}
    return folder, *(path for path in visible_folders(folder) if path.name.lower() in known)


def visible_folders(folder: Path) -> list[Path]:
    """The folders in a folder, sorted; hidden ones are not looked at."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
