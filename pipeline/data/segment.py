"""A file in a node's memory (/dev/shm) that all workers of the node map.

It is locked (flock) from the instant it has a name, and loses its name as soon as every worker has mapped it, so
nothing stays behind however a run ends. One that was left between the two is recognised by its free lock and removed by
the next run; the file of a living run never is.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import secrets
import struct
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError

FOLDER = Path("/dev/shm")  # noqa: S108 - names are random, and files locked before they have one
PREFIX = "torus224-"
FIELD_BYTES = 8


class Communicator(Protocol):
    """Processes that work together, as an mpi4py communicator shows them."""

    def Get_rank(self) -> int: ...

    def Get_size(self) -> int: ...

    def bcast(self, obj: Any, root: int = 0) -> Any: ...

    def allgather(self, sendobj: Any) -> list[Any]: ...

    def Barrier(self) -> None: ...


class Segment:
    """`bytes` of memory, the same for all workers of a node, behind a few numbers by which they talk."""

    def __init__(self, descriptor: int, size: int, fields: int) -> None:
        """descriptor: of the open file. size: bytes without the numbers. fields: how many numbers."""
        self._descriptor = descriptor
        self._first = _page_aligned(fields * FIELD_BYTES)
        mapped = mmap.mmap(descriptor, self._first + max(1, size))
        self.bytes: NDArray[np.uint8] = np.frombuffer(mapped, dtype=np.uint8, offset=self._first, count=size)
        """(size,) uint8, writable."""

    def say(self, field: int, value: int) -> None:
        """Set a number. A system call, so that whoever sees it sees what was written to memory before."""
        os.pwrite(self._descriptor, struct.pack("q", value), field * FIELD_BYTES)

    def hear(self, first: int, count: int = 1) -> list[int]:
        """`count` numbers from number `first` on; they begin as 0."""
        return list(struct.unpack(f"{count}q", os.pread(self._descriptor, count * FIELD_BYTES, first * FIELD_BYTES)))

    def reserve(self, start: int, stop: int) -> None:
        """Have the kernel set memory aside for these bytes, which else would kill a worker where there is none left.

        Raises UserError where there is none.
        """
        if stop <= start:
            return
        try:
            os.posix_fallocate(self._descriptor, self._first + start, stop - start)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise UserError(
                f"{FOLDER} has no {stop - start:,} bytes left for samples; enlarge it or free memory"
            ) from None


def share(node: Communicator, size: int, *, fields: int = 0, folder: Path = FOLDER) -> Segment:
    """A segment of `size` bytes; every worker of the node calls it. Raises UserError where `folder` is too small."""
    length = _page_aligned(fields * FIELD_BYTES) + max(1, size)
    descriptor = None
    named: str | UserError | None = None
    if node.Get_rank() == 0:
        remove_stale(folder)
        try:
            descriptor, named = _create(length, folder)
        except UserError as error:
            named = error
    named = node.bcast(named)
    if isinstance(named, UserError):
        raise named
    assert named is not None, "the node's first worker made the file"
    try:
        segment = Segment(os.open(named, os.O_RDWR), size, fields)
        node.Barrier()
    finally:
        if descriptor is not None:
            os.unlink(named)
            os.close(descriptor)
    return segment


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


def _create(length: int, folder: Path) -> tuple[int, str]:
    """A locked file of `length` bytes; (descriptor, path)."""
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    if length > free:
        raise UserError(f"{folder} has {free:,} bytes free and the samples need {length:,}; enlarge it or free memory")
    descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.ftruncate(descriptor, length)
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


def _page_aligned(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
