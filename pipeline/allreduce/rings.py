"""Ring reduce-scatter and all-gather on one row, one column or all workers, in place.

gloo's own reduce-scatter carries as many bytes as a whole all-reduce, so the phases are written here as point-to-point
rings: each worker sends to its next neighbour and receives from the one before, n-1 times, 1/n of the data a time.
"""

import torch
from torch import Tensor

from pipeline.allreduce.means import Buffers, fold
from pipeline.allreduce.ports import Port


class Ring:
    """The ring of a port's workers, in rank order, seen from this one. One object serves one phase of one lane."""

    def __init__(self, port: Port) -> None:
        self.size = port.size
        self._position = port.rank
        self._port = port
        self._buffers = Buffers()

    def piece(self, work: Tensor, back: int) -> Tensor:
        """The piece of `work`, shape (n,), that belongs to the worker `back` places behind this one, as a view.

        Pieces differ by one element at most where n is no multiple of the ring's size.
        """
        return torch.tensor_split(work, self.size)[(self._position - back) % self.size]

    def exchange(self, outgoing: Tensor, incoming: Tensor) -> None:
        """Send `outgoing` to the next worker, and receive what the one before sends into `incoming`."""
        following, preceding = (self._position + 1) % self.size, (self._position - 1) % self.size
        self._port.transfer([(outgoing, following)], [(incoming, preceding)])

    def reduce_scatter(self, work: Tensor) -> None:
        """Leave the ring's mean of this worker's own piece in it; the other pieces are left with partial means."""
        for hop in range(1, self.size):
            mine = self.piece(work, hop + 1)
            incoming = self._buffers.like(mine)
            self.exchange(self.piece(work, hop), incoming)
            fold(mine, [(incoming, hop)], self._buffers)

    def all_gather(self, work: Tensor) -> None:
        """Fill `work` with every worker's own piece."""
        for hop in range(self.size - 1):
            self.exchange(self.piece(work, hop), self.piece(work, hop + 1))
