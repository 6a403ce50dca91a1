"""Writing shards: samples in, tar files with their indexes and a manifest out. `shards.py` says what is in them.

A shard is written under another name and renamed once it is whole and on the disk, so a file under its final name is
never half of one. One image is held at a time.
"""

import csv
import hashlib
import io
import json
import os
import socket
import tarfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pipeline.data.shards import FORMAT, INDEX_FIELDS, tsv
from pipeline.run_folder import write_atomically


@dataclass(frozen=True)
class Sample:
    """One image with its label; width and height as stored."""

    key: str
    """A name of letters, digits, `-` and `_`: WebDataset ends a key at its first dot."""
    image: bytes
    label: int
    width: int
    height: int


class ShardWriter:
    """Writes one shard: `with ShardWriter(folder, "train-000000") as shard: shard.add(sample)`, then `shard.entry`.

    An exception inside leaves nothing behind.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._tar_path = folder / f"{name}.tar"
        self._temporary = unfinished(self._tar_path)
        self._rows = io.StringIO()
        self._table = csv.writer(self._rows, delimiter="\t", lineterminator="\n")
        self._table.writerow(INDEX_FIELDS)
        self._samples = 0
        self.entry: dict[str, Any] = {}
        """The shard's part of the manifest, once it is closed: name, samples, bytes, sha256."""

    def __enter__(self) -> Self:
        self._file = _Hashing(self._temporary)
        self._tar = tarfile.open(fileobj=self._file, mode="w", format=tarfile.USTAR_FORMAT)  # type: ignore[call-overload]
        return self

    def add(self, sample: Sample) -> None:
        """Append a sample."""
        offset = _add(self._tar, f"{sample.key}.jpg", sample.image)
        _add(self._tar, f"{sample.key}.cls", str(sample.label).encode())
        size, crc32 = len(sample.image), zlib.crc32(sample.image)
        self._table.writerow([sample.key, offset, size, sample.label, sample.width, sample.height, crc32])
        self._samples += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._file.close()
            self._temporary.unlink(missing_ok=True)

    def _finish(self) -> None:
        self._tar.close()
        self._file.sync()
        self._temporary.replace(self._tar_path)
        write_atomically(self._tar_path.parent / tsv(self._tar_path.name), self._rows.getvalue())
        self.entry = {
            "name": self._tar_path.name,
            "samples": self._samples,
            "bytes": self._file.size,
            "sha256": self._file.sha256(),
        }


def unfinished(path: Path) -> Path:
    """The name that a file of this process has until it is whole: hidden, and no other process's."""
    return path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")


def write_split(folder: Path, split: str, samples: Iterable[Sample], *, samples_per_shard: int) -> dict[str, Any]:
    """Write `samples` as the shards of `split`; returns the split's part of the manifest."""
    remaining = iter(samples)
    shards: list[dict[str, Any]] = []
    while batch := list(islice(remaining, samples_per_shard)):
        with ShardWriter(folder, shard_name(split, len(shards))) as shard:
            for sample in batch:
                shard.add(sample)
        shards.append(shard.entry)
    return of_split(shards)


def shard_name(split: str, number: int) -> str:
    """`train-000000`: of the shard, without an ending."""
    return f"{split}-{number:06d}"


def of_split(shards: list[dict[str, Any]]) -> dict[str, Any]:
    """A split's part of the manifest, of its shards' entries."""
    return {
        "samples": sum(shard["samples"] for shard in shards),
        "bytes": sum(shard["bytes"] for shard in shards),
        "shards": shards,
    }


def write_manifest(
    folder: Path,
    *,
    name: str,
    classes: int,
    splits: Mapping[str, Mapping[str, Any]],
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write manifest.json, which says that the shards are complete: call it last. more: what else it is to hold."""
    manifest = {"format": FORMAT, "name": name, "classes": classes, **(more or {}), "splits": splits}
    write_atomically(folder / "manifest.json", json.dumps(manifest, indent=1) + "\n")


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> int:
    """Append a member; returns the offset of its content in the tar file."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    header = tar.offset
    tar.addfile(member, io.BytesIO(content))
    return header + tarfile.BLOCKSIZE


class _Hashing:
    """A new file that counts and hashes what is written to it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, content: bytes) -> int:
        self._hash.update(content)
        self.size += len(content)
        return self._file.write(content)

    def tell(self) -> int:
        return self.size

    def sync(self) -> None:
        """Have all of it on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def sha256(self) -> str:
        return self._hash.hexdigest()
