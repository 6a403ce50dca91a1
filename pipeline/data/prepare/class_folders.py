"""Images in a folder a class: FROM/train/CLASS/… and FROM/val/CLASS/…, or FROM/CLASS/… alone.

ImageNet's validation images may lie in FROM/val/ as they come, with their ground truth beside (Kaggle's layout).

A label is the place of a class's folder in their sorted order, as torchvision's ImageFolder has it.
"""

import os
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

from pipeline.data.prepare.ground_truth import labels_of
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


def read(folder: Path, ground_truth: str | None, pool: Executor) -> Source:
    """All images below `folder`. Raises UserError for a class without images, or one to validate with alone.

    ground_truth: its file, for ImageNet's validation images in no class folders, where it is not in `folder`.
    """
    folders = split_folders(folder)
    classes = class_names(folders[TRAIN])
    source = Source("class folders", folder.resolve().name, classes, {split: [] for split in folders})
    for split, top in folders.items():
        names = class_names(top)
        _check_known(top, names, classes)
        jobs = [pool.submit(_of_class, folder, top / name, split, classes.index(name)) for name in names]
        parts = [job.result() for job in jobs] if names else [_unsorted(folder, top, split, classes, ground_truth)]
        for images, oddities in parts:
            source.images[split] += images
            source.oddities += oddities
    return source


def _check_known(top: Path, names: list[str], classes: list[str]) -> None:
    """Raise UserError for a class that is not trained on: it would shift the labels of others."""
    for name in names:
        if name not in classes:
            guess = nearest(name, classes)
            meant = f", did you mean {guess[0]}?" if guess else ""
            raise UserError(f"{top / name}: there is no such class to train on{meant}; remove or rename it")


def _unsorted(
    root: Path, top: Path, split: str, classes: list[str], ground_truth: str | None
) -> tuple[list[StoredImage], list[Oddity]]:
    """ImageNet's validation images, all in one folder."""
    images, oddities = _stored(root, top, split, label=0)
    if not images:
        raise UserError(f"{top} has neither class folders nor images in it; remove or fill it")
    labels = labels_of([image.name for image in images], classes, root, ground_truth)
    return [replace(image, label=label) for image, label in zip(images, labels, strict=True)], oddities


def _of_class(root: Path, folder: Path, split: str, label: int) -> tuple[list[StoredImage], list[Oddity]]:
    """The images of one class folder."""
    images, oddities = _stored(root, folder, split, label)
    if not images:
        raise UserError(f"{folder} has no image in it; a class needs some, another folder has no place there")
    return images, oddities


def _stored(root: Path, folder: Path, split: str, label: int) -> tuple[list[StoredImage], list[Oddity]]:
    """The images in a folder and in folders below it, sorted."""
    images, oddities = [], []
    for path, name in sorted(_files(root, folder)):
        if is_image(name):
            stat = path.stat()
            images.append(StoredImage(str(path), 0, stat.st_size, name, label, stat.st_mtime_ns))
        else:
            oddities.append(Oddity("passed over", split, name))
    return images, oddities


def _files(root: Path, folder: Path) -> list[tuple[Path, str]]:
    """Files below a folder, each with its path below `root`."""
    paths = [Path(top) / name for top, _, names in os.walk(folder, onerror=_refuse) for name in names]
    return [(path, path.relative_to(root).as_posix()) for path in paths]


def _refuse(error: OSError) -> None:
    """A folder that cannot be read: os.walk would leave it out without a word."""
    raise error
