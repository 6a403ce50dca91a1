"""Staging: samples from the shards on a parallel file system into the memory of nodes.

The workers of a node read disjoint parts, each in the order of its shards; every image is held against its checksum.
"""

import os
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.data.memory import ABSENT, SampleMemory
from pipeline.data.segment import FOLDER, Communicator, Segment, share
from pipeline.data.shards import Index
from pipeline.errors import UserError

SHOWN_EVERY_S = 0.2
SHOWN = 3
"""Nodes that are named where several fail."""
Progress = Callable[[int, int], None]
"""Given the bytes that the caller's node has, and how many it will have."""


@dataclass(frozen=True)
class Piece:
    """Samples that lie one behind the other in a segment."""

    index: Index
    samples: NDArray[np.int64]
    """In the order in which they lie there; in the order of the index where reading is to be quick."""
    start: int
    """Where the first begins, bytes."""

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each of `samples` begins, bytes."""
        sizes = self.index.size[self.samples]
        return self.start + np.cumsum(sizes) - sizes

    @property
    def stop(self) -> int:
        """Behind the last, bytes."""
        return self.start + int(self.index.size[self.samples].sum())

    def start_of_each(self) -> NDArray[np.int64]:
        """Where each sample of the index begins, ABSENT for those that are not in the piece."""
        found = np.full(len(self.index), ABSENT)
        found[self.samples] = self.starts
        return found


def stage(indexes: Sequence[Index], node: Communicator, *, folder: Path = FOLDER) -> list[SampleMemory]:
    """Read all samples of `indexes` into the node's memory; returns one SampleMemory an index.

    Called by every worker of the node with the same indexes. Raises UserError, the same on all of them, where the
    memory does not suffice or a shard cannot be read.
    """
    pieces = in_a_row([(index, np.arange(len(index))) for index in indexes])
    segment = share(node, pieces[-1].stop, fields=node.Get_size(), folder=folder)
    bring_in(pieces, segment, node, node)
    return [SampleMemory(piece.index, segment.bytes, piece.start_of_each()) for piece in pieces]


def in_a_row(wanted: Sequence[tuple[Index, NDArray[np.int64]]], start: int = 0) -> list[Piece]:
    """Pieces one behind the other from byte `start` on, of an index and samples of it each."""
    pieces: list[Piece] = []
    for index, samples in wanted:
        pieces.append(Piece(index, samples, pieces[-1].stop if pieces else start))
    return pieces


def bring_in(
    pieces: Sequence[Piece],
    segment: Segment,
    node: Communicator,
    world: Communicator,
    progress: Progress = lambda *_: None,
    *,
    reserved: Sequence[slice] = (),
) -> None:
    """Read pieces into a segment; every worker of `world` calls it, with the same pieces as the others of its node.

    The segment's first numbers, one a worker of the node, tell how much each has read. reserved: bytes of the segment
    that memory is set aside for beside. Raises UserError, the same on all of them, where a shard cannot be read, an
    image is not what was prepared, or memory runs out.
    """
    fault = None
    wanted = sum(piece.stop - piece.start for piece in pieces)
    me, workers = node.Get_rank(), node.Get_size()
    done, shown_s = 0, time.monotonic()
    try:
        for room in reserved if me == 0 else ():
            segment.reserve(room.start, room.stop)
        for piece in pieces:
            for read in _read(piece, segment, me, workers):
                done += read
                if time.monotonic() >= shown_s + SHOWN_EVERY_S:
                    shown_s = time.monotonic()
                    segment.say(me, done)
                    progress(sum(segment.hear(0, workers)), wanted)
    except (UserError, OSError) as error:
        fault = f"{socket.gethostname()}: {error}"
    node.Barrier()
    faults = sorted({told for told in world.allgather(fault) if told})
    if faults:
        more = f"; and {len(faults) - SHOWN} more like these" if len(faults) > SHOWN else ""
        raise UserError("; ".join(faults[:SHOWN]) + more)
    progress(wanted, wanted)


def _read(piece: Piece, segment: Segment, part: int, parts: int) -> Iterator[int]:
    """Read one of `parts` parts of a piece; yields the bytes of each image."""
    starts, stop = piece.starts, piece.stop
    edges = [piece.start + (stop - piece.start) * number // parts for number in (part, part + 1)]
    first, last = np.searchsorted(starts, edges)
    if first == last:
        return
    segment.reserve(int(starts[first]), int(starts[last]) if last < len(starts) else stop)
    samples = piece.samples[first:last]
    shards = piece.index.shard[samples]
    changes = [0, *(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(samples)]
    for here, there in pairwise(changes):
        yield from _read_shard(piece.index, samples[here:there], starts[first + here :], segment)


def _read_shard(index: Index, samples: NDArray[np.int64], starts: NDArray[np.int64], segment: Segment) -> Iterator[int]:
    """Read samples of one shard to where they belong; yields the bytes of each."""
    path = index.folder / index.shards[index.shard[samples[0]]]
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            for sample, start in zip(samples.tolist(), starts.tolist(), strict=False):
                yield _read_sample(index, sample, descriptor, segment.bytes[start : start + index.size[sample]])
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def _read_sample(index: Index, sample: int, descriptor: int, target: NDArray[np.uint8]) -> int:
    """Read an image into `target`, (size,); returns its bytes."""
    read, content = 0, target.data
    while read < len(target):
        got = os.preadv(descriptor, [content[read:]], int(index.offset[sample]) + read)
        if got == 0:
            raise UserError(f"{index.where(sample)}: the shard ends before it; prepare the shards again")
        read += got
    if zlib.crc32(content) != index.crc32[sample]:
        raise UserError(f"{index.where(sample)} differs from what was prepared, by its checksum; prepare it again")
    return read
