"""Ring reduce-scatter and all-gather on one row, one column or all workers, in place.

gloo's own reduce-scatter carries as many bytes as a whole all-reduce, so the phases are written here as point-to-point
rings: each worker sends to its next neighbour and receives from the one before, n-1 times, 1/n of the data a time.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from pipeline.allreduce.means import Buffers, fold
from pipeline.allreduce.ports import Port


class Ring:
    """The ring of a port's workers, in rank order, seen from this one. One object serves one phase of one lane.

    ahead: post the receives of all hops at the start, so that no hop waits for its receiver to be ready. It takes
    memory for n-1 pieces instead of one. weights: how many workers each one's numbers are the mean of, by rank; None:
    one each.
    """

    def __init__(self, port: Port, *, ahead: bool, weights: Sequence[int] | None = None) -> None:
        self.size = port.size
        self._port, self._ahead = port, ahead
        self._following = (port.rank + 1) % port.size
        self._preceding = (port.rank - 1) % port.size
        weights = weights or [1] * port.size
        self._own = weights[port.rank]
        self._before = list(accumulate(weights[(port.rank - back) % port.size] for back in range(1, port.size)))
        self._buffers = Buffers()

    def piece(self, work: Tensor, back: int) -> Tensor:
        """The piece of `work`, shape (n,), that belongs to the worker `back` places behind this one, as a view.

        Pieces differ by one element at most where n is no multiple of the ring's size.
        """
        return torch.tensor_split(work, self.size)[(self._port.rank - back) % self.size]

    def reduce_scatter(self, work: Tensor) -> None:
        """Leave the ring's mean of this worker's own piece in it; the other pieces are left with partial means."""
        pieces = [self.piece(work, back) for back in range(1, self.size + 1)]
        received = [
            self._buffers.like(piece, place=place if self._ahead else 0) for place, piece in enumerate(pieces[1:])
        ]
        for mine, theirs, count in zip(pieces[1:], self._rotate(pieces, received), self._before, strict=True):
            fold(mine, [(theirs, count)], self._buffers, own=self._own)

    def all_gather(self, work: Tensor) -> None:
        """Fill `work` with every worker's own piece."""
        pieces = [self.piece(work, back) for back in range(self.size)]
        for _ in self._rotate(pieces, pieces[1:]):
            pass

    def _rotate(self, outgoing: Sequence[Tensor], incoming: Sequence[Tensor]) -> Iterator[Tensor]:
        """Send one tensor to the next worker and receive one from the worker before, hop by hop; each when it is here.

        Whoever takes one has time to work on what goes out next.
        """
        messages = [(tensor, self._preceding) for tensor in incoming]
        expected = self._port.expect(messages) if self._ahead else []
        sent = []
        for hop, message in enumerate(messages):
            arrival = expected[hop : hop + 1] or self._port.expect([message])
            sent.append(self._port.exchange([(outgoing[hop], self._following)], arrival))
            yield message[0]
        for pending in sent:
            pending.wait()
