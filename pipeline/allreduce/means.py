"""The arithmetic of every all-reduce: workers pass on means of what they have seen, never sums.

A mean of fp16 gradients is as large as they are, so nothing overflows near 65504; and nothing is divided by all 2176
workers at once, which would lose half of the small ones to zero. A sum of more than a thousand fp16 numbers would also
stop growing: what one worker adds is then less than half of its last bit. Means are taken in fp32 and rounded to the
wire's type once a hop.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


class Buffers:
    """Scratch tensors that the next piece of the same size uses again.

    Fresh ones would cost a page fault every 4 KiB, which on CPUs is most of what a hop costs. One object serves one
    thread.
    """

    def __init__(self) -> None:
        self._tensors: dict[tuple[int, torch.Size, torch.dtype], Tensor] = {}

    def like(self, tensor: Tensor, dtype: torch.dtype | None = None, place: int = 0) -> Tensor:
        """A tensor of the shape of `tensor`, with whatever it holds; another one for each `place`."""
        key = (place, tensor.shape, dtype or tensor.dtype)
        if key not in self._tensors:
            self._tensors[key] = torch.empty(tensor.shape, dtype=key[2], device=tensor.device)
        return self._tensors[key]


def fold(mine: Tensor, received: Sequence[tuple[Tensor, int]], buffers: Buffers, *, own: int = 1) -> None:
    """Make of `mine`, the mean of `own` workers, the one with what was `received`: (mean, workers in it) pairs."""
    workers = own + sum(count for _, count in received)
    mean = mine if mine.dtype == torch.float32 else buffers.like(mine, torch.float32).copy_(mine)
    mean.mul_(own / workers)
    for theirs, count in received:
        mean.add_(theirs, alpha=count / workers)
    if mean is not mine:
        mine.copy_(mean)
