"""WebDataset tars: members KEY.jpg (or jpeg, png, webp) and KEY.cls, or KEY.json with `label`.

As WebDataset has it, a key is all of a member's path before the first dot of its last part.
"""

import json
import os
import re
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pipeline.data.prepare.archive import Archive, Member, last_of_each
from pipeline.data.prepare.source import TRAIN, VALIDATION, Oddity, Source, StoredImage
from pipeline.errors import UserError

MOST_CLASSES = 1_000_000
"""A label above is taken for something else."""

LONGEST_LABEL = 200
"""Characters."""
MOST_LABEL_BYTES = 16 * 2**20
"""Of a member that holds a label, which is read whole."""
SPARSE = 10
"""Where fewer than one label in so many has an image, the largest is taken for a mistake."""
SHOWN = 5
"""Labels without images that are named."""

IMAGE_KINDS = ("jpg", "jpeg", "png", "webp")


@dataclass(frozen=True)
class Labelled:
    """An image and the text of its label."""

    image: Member
    label: str


def split_of(path: Path) -> str:
    """Which split a tar is of, by its name or its folder's."""
    for name in (path.name.lower(), path.parent.name.lower()):
        if "train" in name:
            return TRAIN
        if "val" in name:
            return VALIDATION
    raise UserError(
        f"{path}: a WebDataset tar says `train` or `val` in its name or its folder's; this one says neither"
    )


def read(paths: list[Path], name: str, pool: Executor) -> Source:
    """All samples of the tars. Raises UserError where an image has no label."""
    splits = [split_of(path) for path in paths]
    archives = [Archive(path, shown=path.name) for path in paths]
    jobs = [pool.submit(_of_tar, archive, split) for archive, split in zip(archives, splits, strict=True)]
    found = [job.result() for job in jobs]
    classes = _classes({sample.label for samples, _ in found for sample in samples})
    trained = {
        sample.label for split, (samples, _) in zip(splits, found, strict=True) if split == TRAIN for sample in samples
    }
    labels = {text: number for number, text in enumerate(classes)}
    source = Source("WebDataset tars", name, classes, {split: [] for split in sorted(set(splits))})
    source.remarks = _gaps(classes, trained)
    for archive, split, (samples, oddities) in zip(archives, splits, found, strict=True):
        changed_ns = archive.path.stat().st_mtime_ns
        source.images[split] += [_stored(archive, sample, labels, changed_ns) for sample in samples]
        source.oddities += oddities
    return source


def _stored(archive: Archive, sample: Labelled, labels: dict[str, int], changed_ns: int) -> StoredImage:
    return archive.stored(sample.image, labels[sample.label], changed_ns)


def _classes(labels: set[str]) -> list[str]:
    """The names of the classes: `0`, `1`, … up to the largest where labels are numbers, else the labels, sorted."""
    numbers = {label for label in labels if re.fullmatch(r"-?\d+", label)}
    wrong = sorted(label for label in numbers if not 0 <= int(label) < MOST_CLASSES or numbers != labels)
    if wrong:
        others = "" if numbers == labels else f" beside {min(labels - numbers)!r}"
        raise UserError(f"{wrong[0]!r}{others} is no label: all are numbers from 0, or all are names")
    return [str(number) for number in range(max(map(int, labels)) + 1)] if numbers else sorted(labels)


def _gaps(classes: list[str], trained: set[str]) -> list[str]:
    """What to say where labels have no image to train on. Raises UserError where that are most by far."""
    missing = [name for name in classes if name not in trained]
    if not trained or not missing:
        return []
    named = ", ".join(missing[:SHOWN]) + (", …" if len(missing) > SHOWN else "")
    line = f"of the labels {classes[0]} to {classes[-1]} only {len(trained):,} have an image to train on, not {named}"
    if len(trained) * SPARSE <= len(classes):
        raise UserError(f"{line}; number them from 0 without gaps")
    return [line]


def _of_tar(archive: Archive, split: str) -> tuple[list[Labelled], list[Oddity]]:
    members, oddities = last_of_each(archive.walk(), archive, split)
    samples: dict[str, dict[str, Member]] = {}
    for member in members:
        folder, last = os.path.split(member.name)
        stem, _, kind = last.partition(".")
        samples.setdefault(f"{folder}/{stem}", {})[kind.lower()] = member
    found = []
    with archive.path.open("rb") as file:
        for parts in samples.values():
            image = next((parts[kind] for kind in IMAGE_KINDS if kind in parts), None)
            if image is None:
                oddities += [Oddity("passed over", split, f"{archive.shown}/{part.name}") for part in parts.values()]
            else:
                found.append(Labelled(image, _label(archive, file.fileno(), parts, image)))
    return found, oddities


def _label(archive: Archive, descriptor: int, parts: dict[str, Member], image: Member) -> str:
    """The text of a sample's label."""
    key = PurePosixPath(image.name).name.partition(".")[0]
    if "cls" in parts:
        text = _content(archive, descriptor, parts["cls"]).decode(errors="replace").strip()
    elif "json" in parts:
        text = _json_label(archive, parts["json"], _content(archive, descriptor, parts["json"]))
    else:
        text = ""
    if not text:
        raise UserError(f"{archive.path}: {image.name} has no label; {key}.cls, or `label` in {key}.json, would be one")
    if len(text) > LONGEST_LABEL:
        raise UserError(
            f"{archive.path}: the label of {image.name} has {len(text):,} characters; {LONGEST_LABEL} are the most"
        )
    return str(int(text)) if re.fullmatch(r"-?\d+", text) else text


def _content(archive: Archive, descriptor: int, member: Member) -> bytes:
    """A small member. Raises UserError for one that would take memory which this machine may not have."""
    if member.size > MOST_LABEL_BYTES:
        raise UserError(
            f"{archive.path}: {member.name} should hold a label and has {member.size:,} bytes; "
            f"{MOST_LABEL_BYTES:,} are the most"
        )
    return os.pread(descriptor, member.size, member.offset)


def _json_label(archive: Archive, member: Member, content: bytes) -> str:
    """`label` of a JSON; empty where there is none."""
    try:
        found = json.loads(content)
    except ValueError:
        return ""
    if not isinstance(found, dict) or "label" not in found:
        return ""
    label = found["label"]
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise UserError(
            f"{archive.path}: `label` of {member.name} is {json.dumps(label)[:LONGEST_LABEL]}; a whole number from 0 "
            "or a name would be right"
        )
    return str(label).strip()
