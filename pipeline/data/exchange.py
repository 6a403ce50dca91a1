"""The exchange: samples move between nodes by MPI's Alltoallv, in rounds, while an epoch trains.

One thread on the first worker of each node. MPI is asked now and then whether a round is over, and sleeps between: a
blocking call would spin on a core that the trainer needs. Counts and displacements of a round are below 2 GiB, which is
what MPI's 32-bit integers hold.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.data.holdings import Part
from pipeline.data.memory import SampleMemory

ASKED_EVERY_S = 0.0005
IN_FLIGHT = 2
"""Rounds under way at once: one is packed while another moves."""
MOST_BYTES = 2**31 - 1
"""In a round, from or to a node."""


class ExchangeError(Exception):
    """Samples do not come: why, not whose fault it is."""


class Exchange:
    """This node's side of all exchanges of a run."""

    def __init__(self, leaders: Any, largest_bytes: int) -> None:
        """leaders: an MPI communicator of the nodes' first workers, in the order of the nodes, that nobody else uses.
        largest_bytes: what a node sends at most in a round."""
        self._leaders, self._node = leaders, leaders.Get_rank()
        self._buffers = [np.empty(largest_bytes, dtype=np.uint8) for _ in range(IN_FLIGHT)]

    def move(
        self,
        leave: Part,
        arrive: Part,
        held: SampleMemory,
        target: NDArray[np.uint8],
        may_start: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Send what leaves from what is held, and receive what arrives into `target`, in the order of `arrive`.

        may_start: asked before every round, the same number of times on all nodes; False ends the exchange there.
        Returns whether all has moved.
        """
        under_way: deque[Any] = deque()
        rounds, moved, received = len(leave.counts), 0, 0
        parts = np.split(leave.samples, ends_of_rounds(leave, held.index.size)[:-1])
        for samples, there, here in zip(parts, leave.counts, arrive.counts, strict=True):
            if not may_start():
                break
            if len(under_way) == IN_FLIGHT:
                wait(under_way.popleft())
            room = target[received : received + int(here.sum())]
            staying, leaving = apart(samples, there, held.index.size, self._node)
            buffer = pack(held, leaving, self._buffers[moved % IN_FLIGHT])
            ways = layout(buffer, others(there, self._node)), layout(room, others(here, self._node), here)
            under_way.append(self._leaders.Ialltoallv(*ways))
            pack(held, staying, room[int(here[: self._node].sum()) :])  # while the others move
            received, moved = received + len(room), moved + 1
        for request in under_way:
            wait(request)
        return moved == rounds


def wait(request: Any) -> None:
    """Until an MPI request is done, without spinning."""
    while not request.Test():
        time.sleep(ASKED_EVERY_S)


def ends_of_rounds(leave: Part, size: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many samples have left after each round, shape (rounds,). size: bytes of every sample."""
    return np.searchsorted(np.cumsum(size[leave.samples]), np.cumsum(leave.counts.sum(axis=1)), side="right")


def pack(held: SampleMemory, samples: NDArray[np.int64], buffer: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The samples one behind the other; the part of `buffer` that they take."""
    images = held.images(samples)
    room = buffer[: sum(map(len, images))]
    return np.concatenate(images, out=room) if images else room


def apart(
    samples: NDArray[np.int64], counts: NDArray[np.int64], size: NDArray[np.int64], node: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A round's samples that go to `node`, and all others. counts: bytes to each node."""
    first, last = np.searchsorted(np.cumsum(size[samples]), [counts[:node].sum(), counts[: node + 1].sum()], "right")
    return samples[first:last], np.concatenate([samples[:first], samples[last:]])


def others(counts: NDArray[np.int64], node: int) -> NDArray[np.int64]:
    """Bytes by node without those of `node`, which MPI need not copy."""
    return np.where(np.arange(len(counts)) == node, 0, counts)


def layout(content: NDArray[np.uint8], counts: NDArray[np.int64], room: NDArray[np.int64] | None = None) -> list[Any]:
    """A vector of bytes as mpi4py takes it: content, counts and displacements by node.

    room: bytes that each node's part has in `content`; by default its count.
    """
    room = counts if room is None else room
    return [content, (counts, np.cumsum(room) - room), "B"]
