"""Shards: encoded images with their labels in WebDataset tar files, an index beside each, one manifest.

    manifest.json        format, data set, classes; per split: samples, bytes, shards with sizes and checksums
    train-000000.tar     members KEY.jpg and KEY.cls, as WebDataset has it
    train-000000.tsv     key, offset and size of the image in the tar, label, width, height, CRC-32: a line a sample

Same input, same bytes: members carry no times or owners. `shard_writer.py` writes them; this file reads.
"""

import contextlib
import csv
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

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
    """Read the index of `split`. Raises UserError where shards are absent, short or of another format."""
    manifest = _read_manifest(folder)
    if split not in manifest["splits"]:
        raise UserError(f"{folder} has no split {split!r}; it has {', '.join(manifest['splits'])}")
    shards = manifest["splits"][split]["shards"]
    tables = []
    for shard in shards:
        _check_shard(folder, shard)
        tables.append(_read_table(folder / tsv(shard["name"]), shard["samples"]))
    shard_of_row = np.repeat(np.arange(len(shards)), [len(table) for table in tables])
    columns = np.concatenate([np.empty((0, len(INDEX_FIELDS) - 1), np.int64), *tables]).T
    return Index(
        folder, [shard["name"] for shard in shards], shard_of_row, *(np.ascontiguousarray(column) for column in columns)
    )


def read_classes(folder: Path) -> int:
    """Number of classes of the data set."""
    return int(_read_manifest(folder)["classes"])


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; data.path must be a folder of prepared shards") from None
    except ValueError:
        raise UserError(f"{path} is damaged; prepare the shards again") from None
    if not isinstance(manifest, dict) or not {"format", "classes", "splits"} <= set(manifest):
        raise UserError(f"{path} is no manifest: it must name format, classes and splits; prepare the shards again")
    if manifest.get("format") != FORMAT:
        raise UserError(f"{path} has format {manifest.get('format')}, this version reads {FORMAT}; prepare it again")
    return manifest


def _read_table(path: Path, samples: int) -> NDArray[np.int64]:
    """The numbers of a shard's index, shape (samples, fields but the key)."""
    with warnings.catch_warnings(action="ignore"), _existing(path).open() as file:  # of an empty file
        _check_header(path, file.readline())
        try:
            table = np.loadtxt(
                file, np.int64, comments=None, delimiter="\t", usecols=range(1, len(INDEX_FIELDS)), ndmin=2
            )
        except ValueError:
            raise _wrong_row(path) from None
    if len(table) != samples:
        raise UserError(f"{path} has {len(table)} samples, manifest.json says {samples}; prepare it again")
    if (table < 0).any():
        raise _wrong_row(path)
    return table


def _wrong_row(path: Path) -> UserError:
    """The error that names the first row which is none."""
    rows = list(_read_rows(path))
    fits = [len(row) == len(INDEX_FIELDS) and all(value.isdigit() for value in row[1:]) for row in rows]
    number = fits.index(False) + 1 if False in fits else len(rows)
    return UserError(f"{path}, sample {number}: not a line of an index; prepare the shards again")


def _check_shard(folder: Path, shard: dict[str, Any]) -> None:
    path = folder / shard["name"]
    if not path.is_file():
        raise UserError(f"{path}: no such file, though manifest.json lists it; prepare the shards again")
    if path.stat().st_size != shard["bytes"]:
        raise UserError(
            f"{path} has {path.stat().st_size:,} bytes, manifest.json says {shard['bytes']:,}; prepare it again"
        )


def _read_rows(path: Path) -> Iterator[list[str]]:
    with _existing(path).open(newline="") as file:
        _check_header(path, file.readline())
        yield from csv.reader(file, delimiter="\t")


def _existing(path: Path) -> Path:
    """The path itself. Raises UserError where there is no such file."""
    if not path.is_file():
        raise UserError(f"{path}: no such file, though its shard is there; prepare the shards again")
    return path


def _check_header(path: Path, line: str) -> None:
    if tuple(line.rstrip("\r\n").split("\t")) != INDEX_FIELDS:
        raise UserError(f"{path} is no index: its first line must name {', '.join(INDEX_FIELDS)}")
