"""Thousands of workers in one process: ports without a network, for rings and for trees.

A ring's workers all do the same at the same time, so one call works on a tensor of all of them, and a message is a
roll along their dimension. A tree's workers wait for each other; called in the tree's order they never have to.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from pipeline.allreduce.communicators import Communicators, Kind
from pipeline.allreduce.ports import Expected, Messages, Pending, Port
from pipeline.allreduce.rings import Ring


class RollingPort(Port):
    """All workers of rings at once: every tensor has them along `dim`."""

    def __init__(self, size: int, dim: int = -2) -> None:
        super().__init__(size, 0)
        self._dim = dim

    def expect(self, messages: Messages) -> list[Expected]:
        return [Expected(tensor, source) for tensor, source in messages]

    def exchange(self, outgoing: Messages, incoming: Sequence[Expected]) -> Pending:
        for (tensor, _), message in zip(outgoing, incoming, strict=True):
            message.tensor.copy_(tensor.roll(1, self._dim))
        return Pending()


class StackedRing(Ring):
    """A ring whose chunks have their pieces along the first dimension: each worker's own, then that of the one before
    it, and so on, as `apart` lays them."""

    def piece(self, work: Tensor, back: int) -> Tensor:
        return work[back % self.size]


def apart(work: Tensor, size: int, dim: int) -> Tensor:
    """Cut the last dimension into the pieces of a ring of `size` along `dim`: a new first dimension, in which piece
    `back` is that of the worker `back` places behind. The same of what it gives undoes it, by `together`."""
    pieces = torch.stack(work.tensor_split(size, -1))
    return _sorted_by_owner(pieces, size, dim)


def together(work: Tensor, size: int, dim: int) -> Tensor:
    """Undo `apart`."""
    return torch.cat(list(_sorted_by_owner(work, size, dim)), -1)


def _sorted_by_owner(pieces: Tensor, size: int, dim: int) -> Tensor:
    """Swap piece p of worker w with its piece w - p: by owner to by distance, and back."""
    workers = pieces.movedim(dim, 1)
    index = (torch.arange(size) - torch.arange(size)[:, None]) % size  # (piece, worker)
    return workers[index, torch.arange(size)].movedim(1, dim).contiguous()


class MemoryPort(Port):
    """Messages left in memory. Whoever receives must be called after who sends."""

    def __init__(self, size: int, rank: int, letters: "Letters") -> None:
        super().__init__(size, rank)
        self._letters = letters

    def expect(self, messages: Messages) -> list[Expected]:
        return [Expected(tensor, source) for tensor, source in messages]

    def exchange(self, outgoing: Messages, incoming: Sequence[Expected]) -> Pending:
        for tensor, to in outgoing:
            self._letters[self.rank, to].append(tensor.clone())
        for message in incoming:
            message.tensor.copy_(self._letters[message.source, self.rank].popleft())
        return Pending()


Letters = defaultdict[tuple[int, int], deque[Tensor]]
"""What was sent and not yet received, by sender and receiver."""

Post = defaultdict[tuple[Kind, int], Letters]
"""The letters of every communicator: by kind, and the how manieth of its kind it is."""


def post() -> Post:
    """No letters yet."""
    return defaultdict(lambda: defaultdict(deque))


class FakeCommunicators(Communicators):
    """The communicators of one worker of a simulation.

    post: what all workers of the simulation sent. rolling: kinds whose ports stand for all workers of it at once.
    """

    def __init__(
        self,
        rank: int,
        grid: tuple[int, int],
        nodes: Sequence[Sequence[int]],
        post: Post,
        rolling: Collection[Kind] = (),
    ) -> None:
        super().__init__(rank, grid, nodes, backend="gloo", timeout_s=1.0)
        self._post, self._rolling = post, rolling
        self._made: dict[Kind, int] = defaultdict(int)

    def ports(self, kind: Kind, count: int = 1) -> tuple[Port, ...]:
        members = next((ranks for ranks in self._sets[kind] if self.rank in ranks), None)
        if members is None:
            return ()
        if kind in self._rolling:
            return tuple(RollingPort(len(members)) for _ in range(count))
        made = range(self._made[kind], self._made[kind] + count)
        self._made[kind] += count
        place = members.index(self.rank)
        return tuple(MemoryPort(len(members), place, self._post[kind, number]) for number in made)
