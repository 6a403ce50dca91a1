"""Shards: encoded images with their labels in WebDataset tar files, an index beside each, one manifest.

    manifest.json        format, data set, classes; per split: samples, bytes, shards with sizes and checksums
    train-000000.tar     members KEY.jpg and KEY.cls, as WebDataset has it
    train-000000.tsv     key, offset and size of the image in the tar, label, width, height: a line a sample

Same input, same bytes: members carry no times or owners.
"""

import csv
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.run_folder import write_atomically

FORMAT = 1
INDEX_FIELDS = ("key", "offset", "size", "label", "width", "height")


@dataclass(frozen=True)
class Sample:
    """One image with its label; width and height as stored."""

    key: str
    image: bytes
    label: int
    width: int
    height: int


@dataclass(frozen=True)
class Index:
    """All samples of a split, in the order of its shards: arrays of one entry a sample."""

    folder: Path
    shards: list[str]
    keys: list[str]
    shard: NDArray[np.int64]
    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    label: NDArray[np.int64]
    width: NDArray[np.int64]
    height: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.keys)

    def first(self, samples: int) -> "Index":
        """The first `samples` samples."""
        arrays = (self.shard, self.offset, self.size, self.label, self.width, self.height)
        return Index(self.folder, self.shards, self.keys[:samples], *(array[:samples] for array in arrays))

    def where(self, sample: int) -> str:
        """Sample `sample`, named for a person: its key and its shard."""
        return f"{self.keys[sample]} in {self.folder / self.shards[self.shard[sample]]}"


def write_split(folder: Path, split: str, samples: Iterable[Sample], *, samples_per_shard: int) -> dict[str, Any]:
    """Write `samples` as the shards of `split`; returns the split's part of the manifest."""
    remaining = iter(samples)
    shards: list[dict[str, Any]] = []
    while batch := list(islice(remaining, samples_per_shard)):
        shards.append(_write_shard(folder, f"{split}-{len(shards):06d}", batch))
    return {
        "samples": sum(shard["samples"] for shard in shards),
        "bytes": sum(shard["bytes"] for shard in shards),
        "shards": shards,
    }


def write_manifest(folder: Path, *, name: str, classes: int, splits: dict[str, dict[str, Any]]) -> None:
    """Write manifest.json, which says that the shards are complete: call it last."""
    manifest = {"format": FORMAT, "name": name, "classes": classes, "splits": splits}
    write_atomically(folder / "manifest.json", json.dumps(manifest, indent=1) + "\n")


def read_index(folder: Path, split: str) -> Index:
    """Read the index of `split`. Raises UserError where shards are absent, short or of another format."""
    manifest = _read_manifest(folder)
    if split not in manifest["splits"]:
        raise UserError(f"{folder} has no split {split!r}; it has {', '.join(manifest['splits'])}")
    shards = manifest["splits"][split]["shards"]
    rows: list[tuple[int, list[str]]] = []
    for number, shard in enumerate(shards):
        _check_shard(folder, shard)
        rows.extend((number, row) for row in _read_rows(folder / shard["name"].replace(".tar", ".tsv")))
    _check_rows(folder, shards, rows)
    columns = np.array([[int(value) for value in row[1:]] for _, row in rows], dtype=np.int64).reshape(-1, 5)
    return Index(
        folder,
        [shard["name"] for shard in shards],
        [row[0] for _, row in rows],
        np.array([number for number, _ in rows], dtype=np.int64),
        *columns.T,
    )


def read_classes(folder: Path) -> int:
    """Number of classes of the data set."""
    return int(_read_manifest(folder)["classes"])


def _write_shard(folder: Path, name: str, samples: list[Sample]) -> dict[str, Any]:
    tar_path = folder / f"{name}.tar"
    offsets = []
    with tarfile.open(tar_path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for sample in samples:
            offsets.append(_add(tar, f"{sample.key}.jpg", sample.image))
            _add(tar, f"{sample.key}.cls", str(sample.label).encode())
    rows = io.StringIO()
    writer = csv.writer(rows, delimiter="\t", lineterminator="\n")
    writer.writerow(INDEX_FIELDS)
    for sample, offset in zip(samples, offsets, strict=True):
        writer.writerow([sample.key, offset, len(sample.image), sample.label, sample.width, sample.height])
    write_atomically(folder / f"{name}.tsv", rows.getvalue())
    content = tar_path.read_bytes()
    return {
        "name": tar_path.name,
        "samples": len(samples),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> int:
    """Append a member; returns the offset of its content in the tar file."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    header = tar.offset
    tar.addfile(member, io.BytesIO(content))
    return header + tarfile.BLOCKSIZE


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


def _check_rows(folder: Path, shards: list[dict[str, Any]], rows: list[tuple[int, list[str]]]) -> None:
    """Raise UserError for a row that is none, or for an index that has not as many as its shard has samples."""
    counts = [0] * len(shards)
    for number, row in rows:
        counts[number] += 1
        if len(row) != len(INDEX_FIELDS) or not all(value.isdigit() for value in row[1:]):
            name = shards[number]["name"].replace(".tar", ".tsv")
            raise UserError(
                f"{folder / name}, sample {counts[number]}: not a line of an index; prepare the shards again"
            )
    for shard, count in zip(shards, counts, strict=True):
        if count != shard["samples"]:
            name = shard["name"].replace(".tar", ".tsv")
            raise UserError(
                f"{folder / name} has {count} samples, manifest.json says {shard['samples']}; prepare it again"
            )


def _check_shard(folder: Path, shard: dict[str, Any]) -> None:
    path = folder / shard["name"]
    if not path.is_file():
        raise UserError(f"{path}: no such file, though manifest.json lists it; prepare the shards again")
    if path.stat().st_size != shard["bytes"]:
        raise UserError(
            f"{path} has {path.stat().st_size:,} bytes, manifest.json says {shard['bytes']:,}; prepare it again"
        )


def _read_rows(path: Path) -> Iterator[list[str]]:
    try:
        with path.open(newline="") as file:
            rows = csv.reader(file, delimiter="\t")
            header = next(rows, [])
            if tuple(header) != INDEX_FIELDS:
                raise UserError(f"{path} is no index: its first line must name {', '.join(INDEX_FIELDS)}")
            yield from rows
    except FileNotFoundError:
        raise UserError(f"{path}: no such file, though its shard is there; prepare the shards again") from None
