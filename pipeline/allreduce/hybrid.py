"""The hybrid all-reduce of Jia et al. 2018 (arXiv 1807.11205, section 3.3): a flat ring for large tensors, hierarchical
for small ones.

A ring carries the fewest bytes and takes the most steps, so it wins where bytes take longer than steps.
"""

from collections.abc import Callable
from dataclasses import replace

from pipeline.allreduce import hierarchical, ring
from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.scheme import Lane, Scheme


def scheme(communicators: Communicators, ring_from_elements: int, *, ahead: bool) -> Scheme:
    """The ring for buckets of `ring_from_elements` and more, hierarchical below: lanes of which one is always empty."""
    large = ring.scheme(communicators, ahead=ahead).lanes
    small = hierarchical.scheme(communicators).lanes
    return Scheme(
        (
            *(replace(lane, part=_where(lane, lambda size: size >= ring_from_elements)) for lane in large),
            *(replace(lane, part=_where(lane, lambda size: size < ring_from_elements)) for lane in small),
        )
    )


def _where(lane: Lane, taken: Callable[[int], bool]) -> Callable[[int], tuple[int, int]]:
    """The lane's part of the buckets whose size it takes, and nothing of the others."""
    return lambda size: lane.part(size) if taken(size) else (0, 0)
