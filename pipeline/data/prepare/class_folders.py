"""Images in a folder a class: FROM/train/CLASS/… and FROM/val/CLASS/…, or FROM/CLASS/… alone.

A label is the place of a class's folder in their sorted order, as torchvision's ImageFolder has it.
"""

import os
from concurrent.futures import Executor
from pathlib import Path

from pipeline.data.prepare.source import TRAIN, VALIDATION, Oddity, Source, StoredImage, is_image
from pipeline.errors import UserError, nearest

VALIDATION_FOLDERS = ("val", "validation", "valid")


def split_folders(folder: Path) -> dict[str, Path]:
    """The folders of the splits; that of training is `folder` itself where it has no train/."""
    held_out = [folder / name for name in VALIDATION_FOLDERS if (folder / name).is_dir()]
    if not (folder / TRAIN).is_dir():
        return {TRAIN: folder}
    if len(held_out) > 1:
        raise UserError(f"{folder} has {held_out[0].name}/ and {held_out[1].name}/; one of them must go")
    return {TRAIN: folder / TRAIN, **({VALIDATION: held_out[0]} if held_out else {})}


def class_names(folder: Path) -> list[str]:
    """The class folders in `folder`, sorted."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def read(folder: Path, pool: Executor) -> Source:
    """All images below `folder`. Raises UserError for a class without images, or one to validate with alone."""
    folders = split_folders(folder)
    classes = class_names(folders[TRAIN])
    source = Source("class folders", folder.resolve().name, classes, {split: [] for split in folders})
    for split, top in folders.items():
        names = class_names(top)
        for name in names:
            if name not in classes:
                guess = nearest(name, classes)
                meant = f", did you mean {guess[0]}?" if guess else ""
                raise UserError(f"{top / name}: there is no such class to train on{meant}; remove or rename it")
        jobs = [pool.submit(_of_class, folder, top / name, split, classes.index(name)) for name in names]
        for job in jobs:
            images, oddities = job.result()
            source.images[split] += images
            source.oddities += oddities
    return source


def _of_class(root: Path, folder: Path, split: str, label: int) -> tuple[list[StoredImage], list[Oddity]]:
    """The images of one class folder, in folders below it too, sorted."""
    images, oddities = [], []
    for path, name in sorted(_files(root, folder)):
        if is_image(name):
            stat = path.stat()
            images.append(StoredImage(str(path), 0, stat.st_size, name, label, stat.st_mtime_ns))
        else:
            oddities.append(Oddity("passed over", split, name))
    if not images:
        raise UserError(f"{folder} has no image in it; a class needs some, another folder has no place there")
    return images, oddities


def _files(root: Path, folder: Path) -> list[tuple[Path, str]]:
    """Files below a folder, each with its path below `root`."""
    paths = [Path(top) / name for top, _, names in os.walk(folder, onerror=_refuse) for name in names]
    return [(path, path.relative_to(root).as_posix()) for path in paths]


def _refuse(error: OSError) -> None:
    """A folder that cannot be read: os.walk would leave it out without a word."""
    raise error
