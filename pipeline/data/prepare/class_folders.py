"""Images in a folder a class: FROM/train/CLASS/… and FROM/val/CLASS/…, or FROM/CLASS/… alone.

ImageNet's validation images may lie in FROM/val/ as they come, with their ground truth beside (Kaggle's layout).

A label is the place of a class's folder in their sorted order, as torchvision's ImageFolder has it.
"""

from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path, PurePosixPath

from pipeline.data.prepare.ground_truth import BESIDE, labels_of
from pipeline.data.prepare.source import NO_SPLIT, TRAIN, Oddity, Source, StoredImage
from pipeline.data.prepare.split_names import split_folders, visible_folders
from pipeline.data.prepare.walk import images_below, loose_files, other_folders
from pipeline.errors import UserError, nearest


def class_names(folder: Path) -> list[str]:
    """The class folders in `folder`, sorted."""
    return [path.name for path in visible_folders(folder)]


def read(folder: Path, ground_truth: str | None, pool: Executor) -> Source:
    """All images below `folder`. Raises UserError for a class without images, or one to validate with alone.

    ground_truth: its file, for ImageNet's validation images in no class folders, where it is not in `folder`.
    """
    folders = split_folders(folder)
    classes = class_names(folders[TRAIN])
    if ground_truth and all(map(class_names, folders.values())):
        raise UserError(
            f"prepare.ground_truth={ground_truth}: for validation images in no class folders; here all are in some"
        )
    source = Source("class folders", folder.resolve().name, classes, {split: [] for split in folders})
    if folders[TRAIN] != folder:
        source.oddities = other_folders(folder, set(folders.values()), "of no split that is used")
        source.oddities += loose_files(folder, folder, NO_SPLIT, BESIDE)
    for split, top in folders.items():
        names = class_names(top)
        _check_known(top, names, classes)
        if names:
            source.oddities += loose_files(folder, top, split, BESIDE)
        jobs = [pool.submit(_of_class, folder, top / name, split, classes.index(name)) for name in names]
        parts = [job.result() for job in jobs] if names else [_unsorted(folder, top, split, classes, ground_truth)]
        for images, oddities in parts:
            source.images[split] += images
            source.oddities += oddities
    _check_nesting(folder, folders[TRAIN], source.images[TRAIN])
    return source


def _check_nesting(root: Path, top: Path, images: list[StoredImage]) -> None:
    """Raise UserError where what look like classes are folders of classes, whose names would be lost."""
    parts = [PurePosixPath(image.name).relative_to(top.relative_to(root)).parts for image in images]
    if any(len(path) == 2 for path in parts):
        return
    below: dict[str, str] = {}
    for name, inner, *_ in parts:
        if below.setdefault(name, inner) != inner:
            raise UserError(
                f"{top / name} has no images but folders of them, as {below[name]}/ and {inner}/; name the folder that "
                "holds the class folders, or train/ and val/, in FROM; where these are no classes, put images beside "
                "each other"
            )


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
    images, oddities = images_below(root, top, split, label=0)
    if not images:
        raise UserError(f"{top} has neither class folders nor images in it; remove or fill it")
    labels = labels_of([image.name for image in images], classes, root, ground_truth)
    return [replace(image, label=label) for image, label in zip(images, labels, strict=True)], oddities


def _of_class(root: Path, folder: Path, split: str, label: int) -> tuple[list[StoredImage], list[Oddity]]:
    """The images of one class folder."""
    if folder.resolve() in folder.parent.resolve().parents or folder.resolve() == folder.parent.resolve():
        raise UserError(f"{folder} is a link to a folder above it; remove it")
    images, oddities = images_below(root, folder, split, label)
    if not images:
        raise UserError(f"{folder} has no image in it; a class needs some, another folder has no place there")
    return images, oddities
