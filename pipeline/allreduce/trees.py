"""Reduce and broadcast on a tree of workers, in place: the phases of every tree-shaped all-reduce."""

from collections import deque

from torch import Tensor

from pipeline.allreduce.means import Buffers, fold
from pipeline.allreduce.ports import Pending, Port
from pipeline.allreduce.shapes import Tree


class Branch:
    """One worker's place in a tree over the workers of two ports, one a direction. Serves one lane.

    A worker in the middle takes in the next chunk while the one before still leaves it: what it sends is waited for
    one chunk later on the way up, and in a phase of its own on the way down.
    """

    def __init__(self, tree: Tree, up: Port, down: Port) -> None:
        self._up, self._down = up, down
        self._parent = tree.parents[up.rank]
        self._children = tree.children(up.rank)
        self._sizes = [tree.sizes[child] for child in self._children]
        self._buffers = Buffers()
        self._rising = Pending()
        self._falling: deque[Pending] = deque()

    def reduce(self, work: Tensor) -> None:
        """Leave the mean of all workers in `work`, shape (n,), at the root; elsewhere that of the part below."""
        received = [self._buffers.like(work, place=place) for place in range(len(self._children))]
        self._up.exchange([], self._up.expect(list(zip(received, self._children, strict=True))))
        if received:
            fold(work, list(zip(received, self._sizes, strict=True)), self._buffers)
        # Nothing writes to a chunk on its way before the parent has it: only its mean, which needs it, comes back.
        self._rising.wait()
        self._rising = self._up.exchange([] if self._parent is None else [(work, self._parent)], [])

    def broadcast(self, work: Tensor) -> None:
        """Take what the root has in `work`, and start to pass it on."""
        self._down.exchange([], self._down.expect([] if self._parent is None else [(work, self._parent)]))
        self._falling.append(self._down.exchange([(work, child) for child in self._children], []))

    def passed_on(self, _: Tensor) -> None:
        """Wait until the children have what the oldest `broadcast` not yet waited for passed on."""
        self._falling.popleft().wait()
