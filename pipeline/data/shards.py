"""Shards: encoded images with their labels in WebDataset tar files, an index beside each, one manifest.

    manifest.json        format, data set, classes; per split: samples, bytes, shards with sizes and checksums
    train-000000.tar     members KEY.jpg and KEY.cls, as WebDataset has it
    train-000000.tsv     key, offset and size of the image in the tar, label, width, height, CRC-32: a line a sample

Same input, same bytes: members carry no times or owners. `shard_writer.py` writes them; this file reads.
"""

import contextlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError

FORMAT = 2
INDEX_FIELDS = ("key", "offset", "size", "label", "width", "height", "crc32")


@dataclass(frozen=True)
class Index:
    """All samples of a split, in the order of its shards: arrays of one entry a sample.

    Keys stay in the files: a million of them would take a hundred times a worker's patience and memory.
    """

    folder: Path
    shards: list[str]
    shard: NDArray[np.int64]
    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    label: NDArray[np.int64]
    width: NDArray[np.int64]
    height: NDArray[np.int64]
    crc32: NDArray[np.int64]
    """Of each image's bytes, as zlib has it."""

    def __len__(self) -> int:
        return len(self.shard)

    def first(self, samples: int) -> "Index":
        """The first `samples` samples."""
        arrays = (self.shard, self.offset, self.size, self.label, self.width, self.height, self.crc32)
        return Index(self.folder, self.shards, *(array[:samples] for array in arrays))

    @property
    def largest(self) -> tuple[int, int]:
        """Width and height of the image of most pixels."""
        place = int((self.width * self.height).argmax())
        return int(self.width[place]), int(self.height[place])

    def key(self, sample: int) -> str:
        """The key of sample `sample`, read from its shard's index; empty where that cannot be read any more."""
        number = int(self.shard[sample])
        inside = sample - int(np.searchsorted(self.shard, number))
        with contextlib.suppress(OSError, StopIteration, UserError):
            return next(islice(_read_rows(self.folder / tsv(self.shards[number])), inside, None))[0]
        return ""

    def where(self, sample: int) -> str:
        """Sample `sample`, named for a person: its key and its shard."""
        return f"{self.key(sample) or f'number {sample}'} in {self.folder / self.shards[self.shard[sample]]}"


def tsv(shard: str) -> str:
    """The name of a shard's index."""
    return shard.removesuffix(".tar") + ".tsv"


def read_index(folder: Path, split: str) -> Index:
    """Read the index of `split`. Raises UserError where shards are absent, short, damaged or of another format."""
    shards = _shards(folder, split)
    tables = []
    for shard in shards:
        _check_shard(folder, shard)
        tables.append(_read_table(folder / tsv(shard["name"]), shard))
    shard_of_row = np.repeat(np.arange(len(shards)), [len(table) for table in tables])
    columns = np.concatenate([np.empty((0, len(INDEX_FIELDS) - 1), np.int64), *tables]).T
    return Index(
        folder, [shard["name"] for shard in shards], shard_of_row, *(np.ascontiguousarray(column) for column in columns)
    )


def read_classes(folder: Path) -> int:
    """Number of classes of the data set."""
    classes = _read_manifest(folder)["classes"]
    if not isinstance(classes, int):
        raise UserError(f"{folder / 'manifest.json'}: classes is {classes!r}, not a number; prepare the shards again")
    return classes


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; data.path must be a folder of prepared shards") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is damaged; prepare the shards again") from None
    if not isinstance(manifest, dict) or not {"format", "classes", "splits"} <= set(manifest):
        raise UserError(f"{path} is no manifest: it must name format, classes and splits; prepare the shards again")
    if manifest.get("format") != FORMAT:
        raise UserError(f"{path} has format {manifest.get('format')}, this version reads {FORMAT}; prepare it again")
    return manifest


def _shards(folder: Path, split: str) -> list[dict[str, Any]]:
    """What the manifest says of a split's shards: names, bytes, samples."""
    path, splits = folder / "manifest.json", _read_manifest(folder)["splits"]
    if isinstance(splits, dict) and split not in splits:
        mend = "; prepare.validation_share=0.1 of `make prepare` holds some out" if split == "validation" else ""
        raise UserError(f"{folder} has no split {split!r}; it has {', '.join(splits) or 'none'}{mend}")
    try:
        shards = [
            {"name": shard["name"], "bytes": shard["bytes"], "samples": shard["samples"]}
            for shard in splits[split]["shards"]
        ]
    except (LookupError, TypeError):
        raise UserError(f"{path} does not list the shards of {split!r}; prepare the shards again") from None
    names = [shard["name"] for shard in shards]
    for shard in shards:
        name, numbers = shard["name"], (shard["bytes"], shard["samples"])
        plain = isinstance(name, str) and Path(name).name == name and name.endswith(".tar") and "\0" not in name
        if not plain or not all(isinstance(number, int) for number in numbers) or names.count(name) > 1:
            raise UserError(
                f"{path}: {json.dumps(shard)} of {split!r} is no shard, or is there twice; prepare it again"
            )
    return shards


def _read_table(path: Path, shard: dict[str, Any]) -> NDArray[np.int64]:
    """The numbers of a shard's index, shape (samples, fields but the key). shard: the manifest's words on it."""
    with warnings.catch_warnings(action="ignore"), _opened(path) as file:  # of an empty file
        _check_header(path, file.readline())
        try:
            table = np.loadtxt(
                file, np.int64, comments=None, delimiter="\t", usecols=range(1, len(INDEX_FIELDS)), ndmin=2
            )
        except (ValueError, OverflowError):
            raise _wrong_row(path, shard["bytes"]) from None
    if len(table) != shard["samples"]:
        raise UserError(f"{path} has {len(table)} samples, manifest.json says {shard['samples']}; prepare it again")
    offset, size = table[:, 0], table[:, 1]
    if (table < 0).any() or (size > shard["bytes"]).any() or (offset > shard["bytes"] - size).any():
        raise _wrong_row(path, shard["bytes"])
    return table


def _wrong_row(path: Path, shard_bytes: int) -> UserError:
    """The error that names the first row which is none, or points beyond its shard."""
    number = 0
    for row in _read_rows(path):
        number += 1
        if len(row) != len(INDEX_FIELDS) or not all(value.isascii() and value.isdigit() for value in row[1:]):
            break
        values = [int(value) for value in row[1:] if len(value) < len(str(2**63))]
        if len(values) < len(row) - 1 or max(values) >= 2**63 or values[0] + values[1] > shard_bytes:
            break
    return UserError(f"{path}, sample {number}: not a line of this shard's index; prepare the shards again")


def _check_shard(folder: Path, shard: dict[str, Any]) -> None:
    path = folder / shard["name"]
    if not path.is_file():
        raise UserError(f"{path}: no such file, though manifest.json lists it; prepare the shards again")
    if path.stat().st_size != shard["bytes"]:
        raise UserError(
            f"{path} has {path.stat().st_size:,} bytes, manifest.json says {shard['bytes']:,}; prepare it again"
        )


def _read_rows(path: Path) -> Iterator[list[str]]:
    with _opened(path) as file:
        _check_header(path, file.readline())
        for line in file:
            yield line.rstrip("\n").split("\t")


def _opened(path: Path) -> TextIO:
    """An index to read; what is no text in it comes as replacement characters, and so is no number.

    Raises UserError where there is no such file.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file, though its shard is there; prepare the shards again")
    return path.open(encoding="utf-8", errors="replace")


def _check_header(path: Path, line: str) -> None:
    if tuple(line.rstrip("\r\n").split("\t")) != INDEX_FIELDS:
        raise UserError(f"{path} is no index: its first line must name {', '.join(INDEX_FIELDS)}")
