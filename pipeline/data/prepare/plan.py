"""From a source to its shards: keys, a fixed order, cuts. A function of the source and the options alone.

The order is a shuffle in which every prefix has of each class about its share of the whole: of a class's images,
shuffled, number r of n goes to a place drawn from the r-th of n equal parts of the data set. So a shard is a mix, and
in the first N samples classes of one size differ by at most one image. Draws are hashes of keys, which nothing changes.
"""

import hashlib
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import PurePosixPath

from pipeline.data.prepare.options import Options
from pipeline.data.prepare.source import TRAIN, VALIDATION, Source, StoredImage
from pipeline.data.shard_writer import shard_name
from pipeline.errors import UserError

MADE_BY = 1
"""Goes up when the same source is to give other shards."""
LONGEST_KEY = 80
"""Of the 100 bytes that a name in a tar may have."""

Sample = tuple[str, StoredImage]
"""A key and its image."""


@dataclass(frozen=True)
class PlannedShard:
    """What goes into one shard."""

    split: str
    name: str
    """Without an ending."""
    shorter_side: int | None
    samples: tuple[Sample, ...]
    """Keys and images."""

    def fingerprint(self) -> str:
        """Of all that the shard's bytes follow from."""
        digest = hashlib.sha256(json.dumps([MADE_BY, self.name, self.shorter_side]).encode())
        for key, image in self.samples:
            facts = [key, image.name, image.label, image.offset, image.size, image.changed_ns]
            digest.update(json.dumps(facts).encode())
        return digest.hexdigest()

    def source_bytes(self) -> int:
        """Size of the shard, if images stay as they are."""
        return sum(_in_tar(image) for _, image in self.samples)


def hold_out(source: Source, share: float | None) -> None:
    """Move a share of each class from training to validation.

    Of a class with two images or more, at least one. Raises UserError where there is something to validate with
    already, and where no class has two.
    """
    if share is None:
        return
    if source.images.get(VALIDATION):
        raise UserError(
            f"prepare.validation_share={share} is for a source that has nothing to validate with; this one has "
            f"{len(source.images[VALIDATION]):,} images"
        )
    kept: list[Sample] = []
    held_out: list[Sample] = []
    for of_class in _by_class((image.name, image) for image in source.images[TRAIN]):
        of_class.sort(key=lambda sample: _draw("held out", sample[0]))
        first = min(max(1, round(share * len(of_class))), len(of_class) - 1)
        held_out += of_class[:first]
        kept += of_class[first:]
    if not held_out:
        raise UserError(
            f"prepare.validation_share={share} holds out nothing: each class has one image, which is to train on; "
            "classes need two or more"
        )
    source.images |= {TRAIN: [image for _, image in kept], VALIDATION: [image for _, image in held_out]}


def plan_shards(source: Source, options: Options, kept_share: float = 1.0) -> list[PlannedShard]:
    """The shards of all splits. kept_share: what resizing leaves of an image's bytes, about."""
    shards = []
    for split, images in source.images.items():
        cut = _cut(in_order(split, images), options.shard_bytes, kept_share)
        for number, samples in enumerate(cut):
            shards.append(PlannedShard(split, shard_name(split, number), options.shorter_side, tuple(samples)))
    return shards


def in_order(split: str, images: Sequence[StoredImage]) -> list[Sample]:
    """Keys and images, in the order of the shards, whatever the order they are given in."""
    placed = []
    for of_class in _by_class(keyed(images)):
        of_class.sort(key=lambda sample: _draw(split, sample[0]))
        for number, (key, image) in enumerate(of_class):
            placed.append(((number + _draw(split, "place", key)) / len(of_class), key, image))
    placed.sort(key=lambda one: one[:2])
    return [(key, image) for _, key, image in placed]


def keyed(images: Sequence[StoredImage]) -> list[Sample]:
    """Each image with a key of its own: its file's name, after those of as many folders or tars as tell it apart."""
    images = sorted(images, key=lambda image: image.name)
    numbers: Counter[str] = Counter()
    taken: set[str] = set()
    samples = []
    for key, image in zip(_wanted([PurePosixPath(image.name) for image in images]), images, strict=True):
        unique = key
        while unique in taken:  # files that differ in their endings alone, or beyond what a key may have
            numbers[key] += 1
            unique = f"{key}-{numbers[key] + 1}"
        taken.add(unique)
        samples.append((unique, image))
    return samples


def _wanted(names: Sequence[PurePosixPath]) -> list[str]:
    """For each name a key; where several have the same, these get one folder more, until there are no more."""
    keys = [_plain(name.stem) for name in names]
    alike = list(range(len(names)))
    for folders in count(1):
        often = Counter(keys)
        alike = [place for place in alike if often[keys[place]] > 1 and len(names[place].parts) > folders]
        if not alike:
            return keys
        for place in alike:
            above = [part.removesuffix(".tar") for part in names[place].parts[-1 - folders : -1]]
            keys[place] = "-".join([*map(_plain, above), _plain(names[place].stem)])[-LONGEST_KEY:]
    raise AssertionError("a path has an end")


def _cut(samples: list[Sample], shard_bytes: int, kept_share: float) -> list[list[Sample]]:
    """Parts of about equal size, none much above `shard_bytes`."""
    total = sum(_in_tar(image) for _, image in samples)
    shards = max(1, -(-int(total * kept_share) // shard_bytes))
    parts: list[list[Sample]] = [[] for _ in range(shards)]
    before = 0
    for sample in samples:
        parts[before * shards // total].append(sample)
        before += _in_tar(sample[1])
    return [part for part in parts if part]


def _by_class(samples: Iterable[Sample]) -> list[list[Sample]]:
    """The samples of each class, by rising label."""
    classes: dict[int, list[Sample]] = {}
    for sample in samples:
        classes.setdefault(sample[1].label, []).append(sample)
    return [classes[label] for label in sorted(classes)]


def _in_tar(image: StoredImage) -> int:
    """Bytes that a sample takes in a shard: two headers, image and label, in whole blocks."""
    return (3 + -(-image.size // tarfile.BLOCKSIZE)) * tarfile.BLOCKSIZE


def _plain(name: str) -> str:
    """A name with only what a key may have."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)[-LONGEST_KEY:] or "-"


def _draw(*words: str) -> float:
    """A number in [0, 1) that is drawn by words."""
    digest = hashlib.blake2b("\0".join(words).encode(errors="surrogateescape"), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53
