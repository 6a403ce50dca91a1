"""The flat ring: reduce-scatter and all-gather on one ring of all workers.

What a 2D torus is measured against. Every link carries as little as any all-reduce can let it carry, 2(W-1)/W of the
bucket; but in 2(W-1) steps, each with its latency.
"""

from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.rings import Ring
from pipeline.allreduce.scheme import Lane, Phase, Scheme


def scheme(communicators: Communicators) -> Scheme:
    """The flat ring on this worker."""
    ring, back = Ring(communicators.port("world")), Ring(communicators.port("world"))
    return Scheme((Lane((Phase("reduce-scatter", ring.reduce_scatter), Phase("all-gather", back.all_gather))),))
