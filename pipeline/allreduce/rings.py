"""Ring reduce-scatter, all-reduce and all-gather on one row or column of the grid.

gloo's own reduce-scatter carries as many bytes as a whole all-reduce, so the phases are written here as point-to-point
rings: each worker sends to its next neighbour and receives from the one before, n-1 times, 1/n of the data a time.
Sums run in fp32 and are rounded to the wire's type once a hop.
"""

from abc import ABC, abstractmethod

import torch
import torch.distributed as dist
from torch import Tensor


class Buffers:
    """Scratch tensors that the next bucket of the same size uses again.

    Fresh ones would cost a page fault every 4 KiB, which on CPUs is most of what a hop costs. They are never more than
    a few times the bucket of each size.
    """

    def __init__(self) -> None:
        self._tensors: dict[tuple[str, torch.Size, torch.dtype], Tensor] = {}

    def empty(self, purpose: str, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The tensor for `purpose` of this shape and type, with whatever it holds."""
        key = (purpose, shape, dtype)
        if key not in self._tensors:
            self._tensors[key] = torch.empty(shape, dtype=dtype, device=device)
        return self._tensors[key]


class Ring(ABC):
    """A ring of `size` workers, seen from the one at `position`.

    Subclasses say how a tensor goes to the next worker; everything else is arithmetic on chunks. A work tensor has
    shape (size, chunk): one row for every worker of the ring. Leading dimensions are left alone.
    """

    def __init__(self, size: int, position: int) -> None:
        self.size = size
        self.position = position
        self.buffers = Buffers()

    @abstractmethod
    def exchange(self, outgoing: Tensor) -> Tensor:
        """Send `outgoing` to the next worker; return what the one before sent: same shape and type.

        What is returned may be overwritten by the next call.
        """

    def chunk(self, work: Tensor, back: int) -> Tensor:
        """The chunk of the worker `back` places behind this one, as a view."""
        return work.select(-2, (self.position - back) % self.size)

    def add(self, work: Tensor, back: int, received: Tensor) -> None:
        """Add `received` to the chunk of the worker `back` places behind this one."""
        self.chunk(work, back).add_(received)

    def put(self, work: Tensor, back: int, received: Tensor) -> None:
        """Set the chunk of the worker `back` places behind this one."""
        self.chunk(work, back).copy_(received)

    def reduce_scatter(self, work: Tensor, wire: torch.dtype) -> Tensor:
        """Sum `work`, fp32, over the ring; returns this worker's chunk of the sum, fp32, not yet rounded to `wire`.

        The other chunks of `work` are left with partial sums.
        """
        for step in range(1, self.size):
            outgoing = self.buffers.empty("outgoing", self.chunk(work, step).shape, wire, work.device)
            received = self.exchange(outgoing.copy_(self.chunk(work, step)))
            self.add(work, step + 1, received)
        return self.chunk(work, 0)

    def all_gather(self, mine: Tensor) -> Tensor:
        """Every worker's chunk in order, shape (size, chunk), in the type of `mine`.

        What is returned may be overwritten by the next call.
        """
        shape = torch.Size([*mine.shape[:-1], self.size, mine.shape[-1]])
        work = self.buffers.empty("gathered", shape, mine.dtype, mine.device)
        self.put(work, 0, mine)
        for step in range(self.size - 1):
            self.put(work, step + 1, self.exchange(self.chunk(work, step)))
        return work

    def all_reduce(self, work: Tensor, wire: torch.dtype) -> Tensor:
        """Sum `work`, fp32, over the ring; the sum, rounded to `wire`, shape (size, chunk)."""
        mine = self.reduce_scatter(work, wire)
        return self.all_gather(self.buffers.empty("sum", mine.shape, wire, mine.device).copy_(mine))


class GroupRing(Ring):
    """A ring over a torch.distributed process group, by point-to-point messages."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__(group.size(), group.rank())
        self._group = group
        self._next = (self.position + 1) % self.size
        self._previous = (self.position - 1) % self.size

    def exchange(self, outgoing: Tensor) -> Tensor:
        # The group's own calls: dist.isend and irecv check and log what cannot differ here, for as long as a hop takes.
        incoming = self.buffers.empty("incoming", outgoing.shape, outgoing.dtype, outgoing.device)
        sending = self._group.send([outgoing], self._next, 0)
        receiving = self._group.recv([incoming], self._previous, 0)
        receiving.wait()
        sending.wait()
        return incoming
