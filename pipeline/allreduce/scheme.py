"""What an all-reduce algorithm is to the engine: lanes of phases that work on a flat tensor in place.

A lane is a pipeline. A bucket's part in it is cut into chunks, and every chunk goes through the lane's phases in
order; while one chunk is in a phase, the next is in the one before. Each phase has communicators of its own. Lanes run
beside each other: the trees of `tree` and `multicolor`, each with its share of the bucket.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Phase:
    """One step of a lane."""

    name: str
    """For logs, traces and errors: `reduce-scatter, row`."""
    run: Callable[[Tensor], object]
    """Works on a chunk, shape (n,) in the wire's type, in place: blocking on CPUs, enqueueing on a CUDA stream."""


@dataclass(frozen=True)
class Lane:
    """Phases that every chunk of this lane's part of a bucket goes through."""

    phases: tuple[Phase, ...]
    part: Callable[[int], tuple[int, int]] = lambda size: (0, size)
    """First element, and the one after the last, of the lane's part of a bucket of `size` elements."""


@dataclass(frozen=True)
class Scheme:
    """An algorithm on this worker."""

    lanes: tuple[Lane, ...]
    """All phases together leave the mean of all workers in every element."""
    prescale: float = 1.0
    """What the bucket is multiplied by, in fp32, before it is rounded to the wire's type."""
    multiple: int = 1
    """Chunks are padded with zeros to a multiple of so many elements."""


def share(index: int, count: int) -> Callable[[int], tuple[int, int]]:
    """The part of a lane that is one of `count` with equal shares."""
    return lambda size: (size * index // count, size * (index + 1) // count)
