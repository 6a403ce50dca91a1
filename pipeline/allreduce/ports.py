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


class Pending:
    """Messages under way."""

    def __init__(self, works: Sequence[dist.Work] = ()) -> None:
        self._works = works

    def wait(self) -> None:
        """Return when all have arrived or gone; on a GPU let the current stream wait instead. May be called again."""
        for work in self._works:
            work.wait()
        self._works = ()


class Expected(Pending):
    """A message that a worker has said it is ready for."""

    def __init__(self, tensor: Tensor, source: int, works: Sequence[dist.Work] = ()) -> None:
        super().__init__(works)
        self.tensor, self.source = tensor, source


class Port(ABC):
    """One worker's way to the others of a group of `size`, in which it is `rank`.

    Tensors are contiguous; the receiver knows shape and type. Nothing is sent of an empty one.
    """

    def __init__(self, size: int, rank: int) -> None:
        self.size = size
        self.rank = rank

    @abstractmethod
    def expect(self, messages: Messages) -> list[Expected]:
        """Make ready for messages, in the order in which each source will send them.

        The earlier this is called, the less a sender waits: gloo sends nothing before its receiver is ready.
        """

    @abstractmethod
    def exchange(self, outgoing: Messages, incoming: Sequence[Expected]) -> Pending:
        """Send messages, and wait until what is expected has arrived. What is returned waits for what was sent."""


class GlooPort(Port):
    """Messages of one thread over gloo; lanes that share a communicator are told apart by `tag`."""

    def __init__(self, group: dist.ProcessGroup, tag: int = 0) -> None:
        super().__init__(group.size(), group.rank())
        self._group, self._tag = group, tag

    def expect(self, messages: Messages) -> list[Expected]:
        # The group's own calls: dist.isend and irecv check and log what cannot differ here, for as long as a hop takes.
        return [
            Expected(tensor, source, [self._group.recv([tensor], source, self._tag)] if tensor.numel() else [])
            for tensor, source in messages
        ]

    def exchange(self, outgoing: Messages, incoming: Sequence[Expected]) -> Pending:
        sent = Pending([self._group.send([tensor], to, self._tag) for tensor, to in outgoing if tensor.numel()])
        for message in incoming:
            message.wait()
        return sent


class NcclPort(Port):
    """Messages as one NCCL group call, which cannot wait for itself as separate sends and receives could."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__(group.size(), group.rank())
        self._group = group

    def expect(self, messages: Messages) -> list[Expected]:
        return [Expected(tensor, source) for tensor, source in messages]  # received with what is sent meanwhile

    def exchange(self, outgoing: Messages, incoming: Sequence[Expected]) -> Pending:
        operations = [dist.P2POp(dist.isend, tensor, group=self._group, group_peer=to) for tensor, to in outgoing]
        operations += [
            dist.P2POp(dist.irecv, message.tensor, group=self._group, group_peer=message.source) for message in incoming
        ]
        operations = [operation for operation in operations if operation.tensor.numel()]
        if operations:
            Pending(dist.batch_isend_irecv(operations)).wait()
        return Pending()
