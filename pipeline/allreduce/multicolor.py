"""The multi-color all-reduce of Kumar et al. 2017 (IBM; arXiv 1711.00705, section 4.2).

The bucket is cut into k parts, one a color. Each color's part is reduced up and broadcast down a k-ary tree of its own,
chunk by chunk, so that the two overlap. The trees are laid so that no node is in the middle of two of them: every node
takes in k children's parts of one color, and passes on its own of the others.
"""

from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.scheme import Scheme
from pipeline.allreduce.shapes import multicolor
from pipeline.allreduce.tree import on_trees


def scheme(communicators: Communicators, colors: int) -> Scheme:
    """The all-reduce with `colors` trees (fewer where there are fewer nodes) on this worker."""
    return on_trees(multicolor(len(communicators.nodes), colors), communicators)
