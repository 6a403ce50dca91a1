"""Point-to-point messages within a group of workers, on gloo and on NCCL.

All-reduces that are written by hand send their messages through a port. A port belongs to one phase, so that messages
of different phases never wait for each other.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

Messages = Sequence[tuple[Tensor, int]]
"""Tensors, and the ranks in the group that they go to or come from."""


class Port(ABC):
    """One worker's way to the others of a group of `size`, in which it is `rank`.

    Tensors are contiguous; the receiver knows shape and type. Nothing is sent of an empty one.
    """

    def __init__(self, size: int, rank: int) -> None:
        self.size = size
        self.rank = rank

    @abstractmethod
    def start(self, outgoing: Messages, incoming: Messages) -> "Pending":
        """Begin to send and receive all of these at once."""

    def transfer(self, outgoing: Messages, incoming: Messages) -> None:
        """Send and receive all of these at once; return when everything has arrived and gone (see `Pending`)."""
        self.start(outgoing, incoming).wait()


class Pending:
    """Messages under way."""

    def __init__(self, works: Sequence[dist.Work]) -> None:
        self._works = works

    def wait(self) -> None:
        """Return when all have arrived or gone; on a GPU let the current stream wait instead. May be called again."""
        for work in self._works:
            work.wait()
        self._works = ()


class GlooPort(Port):
    """Messages of one thread over gloo; lanes that share a communicator are told apart by `tag`."""

    def __init__(self, group: dist.ProcessGroup, tag: int = 0) -> None:
        super().__init__(group.size(), group.rank())
        self._group, self._tag = group, tag

    def start(self, outgoing: Messages, incoming: Messages) -> Pending:
        # The group's own calls: dist.isend and irecv check and log what cannot differ here, for as long as a hop takes.
        pending = [self._group.recv([tensor], peer, self._tag) for tensor, peer in incoming if tensor.numel()]
        pending += [self._group.send([tensor], peer, self._tag) for tensor, peer in outgoing if tensor.numel()]
        return Pending(pending)


class NcclPort(Port):
    """Messages as one NCCL group call, which cannot wait for itself as separate sends and receives could."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__(group.size(), group.rank())
        self._group = group

    def start(self, outgoing: Messages, incoming: Messages) -> Pending:
        operations = [
            dist.P2POp(operation, tensor, group=self._group, group_peer=peer)
            for operation, messages in ((dist.isend, outgoing), (dist.irecv, incoming))
            for tensor, peer in messages
            if tensor.numel()
        ]
        return Pending(dist.batch_isend_irecv(operations) if operations else ())
