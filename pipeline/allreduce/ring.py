"""The flat ring: reduce-scatter and all-gather on one ring of all workers.

What a 2D torus is measured against. Every link carries as little as any all-reduce can let it carry, 2(W-1)/W of the
bucket; but in 2(W-1) steps, each with its latency.

It posts its receives hop by hop, as the flat rings in use do, gloo's own among them. With `ahead` it posts them at the
start: memory for a whole chunk and W-1 receives under way, for steps that do not wait for their receiver.
"""

from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.rings import Ring
from pipeline.allreduce.scheme import Lane, Phase, Scheme


def scheme(communicators: Communicators, *, ahead: bool) -> Scheme:
    """The flat ring on this worker."""
    ring, back = (Ring(communicators.port("world"), ahead=ahead) for _ in range(2))
    return Scheme((Lane((Phase("reduce-scatter", ring.reduce_scatter), Phase("all-gather", back.all_gather))),))
