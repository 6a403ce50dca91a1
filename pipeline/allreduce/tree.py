"""The double binary tree, what NCCL takes above a few nodes (Sanders, Speck, Träff 2009).

Two trees over the nodes, each with half of the bucket; a node that is in the middle of one is a leaf of the other, so
that every link is busy both ways. The steps grow with the logarithm of the nodes. Within a node the workers form a
chain, as in NCCL; the second tree enters it at the second worker.
"""

from collections.abc import Sequence

from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.scheme import Lane, Phase, Scheme, share
from pipeline.allreduce.shapes import Tree, double_binary, over_nodes
from pipeline.allreduce.trees import Branch


def scheme(communicators: Communicators) -> Scheme:
    """The double binary tree on this worker."""
    return on_trees(double_binary(len(communicators.nodes)), communicators)


def on_trees(trees: Sequence[Tree], communicators: Communicators) -> Scheme:
    """One lane a tree over the nodes, with an equal share of the bucket: reduce up the tree, broadcast down it.

    Tree number i enters every node at its worker number i, so that the work is spread over a node's workers.
    """
    count = len(trees)
    ups, downs = communicators.ports("world", count), communicators.ports("world", count)
    lanes = []
    for index, (tree, up, down) in enumerate(zip(trees, ups, downs, strict=True)):
        branch = Branch(over_nodes(tree, communicators.nodes, index), up, down)
        phases = (
            Phase(f"reduce, tree {index}", branch.reduce),
            Phase(f"broadcast, tree {index}", branch.broadcast),
            Phase(f"passed on, tree {index}", branch.passed_on),
        )
        lanes.append(Lane(phases, share(index, count)))
    return Scheme(tuple(lanes))
