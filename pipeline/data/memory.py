"""Samples in a node's memory: one file in /dev/shm, written by the node's first worker, mapped by all of them.

The file is locked (flock) from the instant it has a name, and loses its name as soon as every worker has mapped it, so
nothing stays behind however a run ends. One that was left between the two is recognised by its free lock and removed by
the next run; the file of a living run never is.
"""

import contextlib
import fcntl
import mmap
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.data.shards import Index
from pipeline.errors import UserError

FOLDER = Path("/dev/shm")
PREFIX = "torus224-"


class NodeWorkers(Protocol):
    """The workers of one node, as an mpi4py communicator shows them."""

    def Get_rank(self) -> int: ...

    def bcast(self, obj: str | None, root: int = 0) -> str | None: ...

    def Barrier(self) -> None: ...


@dataclass(frozen=True)
class SampleMemory:
    """Encoded images in memory. Sample i of the split is `image(i)`, for the samples that were staged."""

    index: Index
    _bytes: NDArray[np.uint8]
    _start: NDArray[np.int64]

    def image(self, sample: int) -> NDArray[np.uint8]:
        """The encoded bytes of a sample, shape (size,), without a copy."""
        start = self._start[sample]
        return self._bytes[start : start + self.index.size[sample]]


def stage(indexes: Sequence[Index], node: NodeWorkers, *, folder: Path = FOLDER) -> list[SampleMemory]:
    """Read the samples of `indexes` into one file in the node's memory; returns one SampleMemory an index.

    Called by every worker of the node with the same indexes. Raises UserError where the memory does not suffice or a
    shard cannot be read.
    """
    total = sum(int(index.size.sum()) for index in indexes)
    leader = node.Get_rank() == 0
    descriptor = None
    path = None
    if leader:
        remove_stale(folder)
        descriptor, path = _create(indexes, total, folder)
    path = node.bcast(path)
    assert path is not None, "the node's first worker made the file"
    try:
        mapped = _map(Path(path), total)
        node.Barrier()
    finally:
        if descriptor is not None:
            os.unlink(path)
            os.close(descriptor)
    content = np.frombuffer(mapped, dtype=np.uint8, count=total)
    memories, first = [], 0
    for index in indexes:
        starts = first + np.concatenate([[0], np.cumsum(index.size)[:-1]]).astype(np.int64)
        memories.append(SampleMemory(index, content, starts))
        first += int(index.size.sum())
    return memories


def remove_stale(folder: Path = FOLDER) -> list[Path]:
    """Remove this user's files whose run is dead; returns them."""
    removed = []
    for path in folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                removed.append(path)
            finally:
                os.close(descriptor)
    return removed


def _create(indexes: Sequence[Index], total: int, folder: Path) -> tuple[int, str]:
    """A locked file with the samples of all indexes; (descriptor, path)."""
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    if total > free:
        raise UserError(f"{folder} has {free:,} bytes free and the samples need {total:,}; enlarge it or free memory")
    descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.ftruncate(descriptor, max(1, total))
    written = 0
    for index in indexes:
        written = _copy(index, descriptor, written)
    path = str(folder / f"{PREFIX}{secrets.token_hex(8)}")
    _name(descriptor, path)
    return descriptor, path


def _name(descriptor: int, path: str) -> None:
    """Give an unnamed file its name, in one step."""
    own = os.open("/proc/self/fd", os.O_RDONLY)
    try:
        os.link(str(descriptor), path, src_dir_fd=own, follow_symlinks=True)
    finally:
        os.close(own)


def _copy(index: Index, descriptor: int, written: int) -> int:
    """Copy an index's images behind `written` bytes, shard by shard; returns the new end."""
    for number, name in enumerate(index.shards):
        of_shard = np.flatnonzero(index.shard == number)
        if not len(of_shard):
            continue
        shard = np.memmap(index.folder / name, dtype=np.uint8, mode="r")
        for sample in of_shard:
            image = shard[index.offset[sample] : index.offset[sample] + index.size[sample]]
            if len(image) != index.size[sample]:
                raise UserError(f"{index.where(int(sample))}: the shard ends before it; prepare the shards again")
            written += os.pwrite(descriptor, image.tobytes(), written)
    return written


def _map(path: Path, total: int) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return mmap.mmap(descriptor, max(1, total), access=mmap.ACCESS_COPY)  # never written; torch wants it writable
    finally:
        os.close(descriptor)
