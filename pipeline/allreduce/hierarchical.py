"""The hierarchical all-reduce of Jia et al. 2018 (arXiv 1807.11205, section 3.3): reduce in the node, a ring of the
nodes' masters, broadcast in the node.

Fewer steps than a flat ring, 2(N-1) for N nodes; but each master carries the whole bucket where on a torus every
worker of the node carries its share. Within a node the bucket goes along a chain of workers, so that none takes in more
than one copy of it.
"""

from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.rings import Ring
from pipeline.allreduce.scheme import Lane, Phase, Scheme
from pipeline.allreduce.shapes import chain
from pipeline.allreduce.trees import Branch


def scheme(communicators: Communicators) -> Scheme:
    """The hierarchical all-reduce on this worker; only the first one of a node is in the ring."""
    up, down = communicators.port("node"), communicators.port("node")
    branch = Branch(chain(up.size), up, down)
    weights = [len(node) for node in communicators.nodes]
    rings, back = (
        [Ring(port, ahead=True, weights=weights) for port in communicators.ports("masters")] for _ in range(2)
    )
    phases = [Phase("reduce, node", branch.reduce)]
    phases += [Phase("reduce-scatter, masters", ring.reduce_scatter) for ring in rings]
    phases += [Phase("all-gather, masters", ring.all_gather) for ring in back]
    phases += [Phase("broadcast, node", branch.broadcast), Phase("passed on, node", branch.passed_on)]
    return Scheme((Lane(tuple(phases)),))
