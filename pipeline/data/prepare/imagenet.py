"""ILSVRC2012 as it is handed out: a tar of class tars to train on, a flat tar to validate with, its ground truth apart.

A label is the place of a class's WordNet id (`n01440764`) in their sorted order, as torchvision and everybody have it.
"""

from concurrent.futures import Executor
from pathlib import Path, PurePosixPath

from pipeline.data.prepare.archive import Archive, Member, images_only, last_of_each
from pipeline.data.prepare.ground_truth import labels_of
from pipeline.data.prepare.source import TRAIN, VALIDATION, Oddity, Source, StoredImage
from pipeline.errors import UserError

TRAIN_TAR = "ILSVRC2012_img_train.tar"
VALIDATION_TAR = "ILSVRC2012_img_val.tar"


def read(train: Path, validation: Path, ground_truth: str | None, pool: Executor) -> Source:
    """All images of both tars; headers are read by `pool`. ground_truth: its file, where it is not beside the tars."""
    outer = Archive(train, shown=train.name)
    class_tars, oddities = _class_tars(outer)
    classes = sorted(class_tars)
    source = Source("ILSVRC2012 tars", "ImageNet", classes, {TRAIN: [], VALIDATION: []}, oddities)
    changed_ns = train.stat().st_mtime_ns
    jobs = [
        pool.submit(_of_class, outer.inner(class_tars[name]), label, changed_ns) for label, name in enumerate(classes)
    ]
    for job in jobs:
        images, odd = job.result()
        source.images[TRAIN] += images
        source.oddities += odd
    source.images[VALIDATION], odd = _of_validation(validation, classes, ground_truth)
    source.oddities += odd
    return source


def _class_tars(outer: Archive) -> tuple[dict[str, Member], list[Oddity]]:
    """The class tars by their class."""
    members, oddities = last_of_each(outer.walk(), outer, TRAIN)
    tars = {PurePosixPath(member.name).stem: member for member in members if member.name.endswith(".tar")}
    others = [member.name for member in members if not member.name.endswith(".tar")]
    oddities += [Oddity("passed over", TRAIN, f"{outer.shown}/{name}") for name in others]
    return tars, oddities


def _of_class(archive: Archive, label: int, changed_ns: int) -> tuple[list[StoredImage], list[Oddity]]:
    """The images of one class tar."""
    members, duplicates = last_of_each(archive.walk(), archive, TRAIN)
    kept, others = images_only(members, archive, TRAIN)
    if not kept:
        raise UserError(f"{archive.shown} has no image in it")
    return [archive.stored(member, label, changed_ns) for member in kept], duplicates + others


def _of_validation(path: Path, classes: list[str], ground_truth: str | None) -> tuple[list[StoredImage], list[Oddity]]:
    """The images of the validation tar."""
    archive = Archive(path, shown=path.name)
    members, duplicates = last_of_each(archive.walk(), archive, VALIDATION)
    kept, others = images_only(members, archive, VALIDATION)
    labels = labels_of([member.name for member in kept], classes, path.parent, ground_truth)
    changed_ns = path.stat().st_mtime_ns
    images = [archive.stored(member, label, changed_ns) for member, label in zip(kept, labels, strict=True)]
    return images, duplicates + others
