"""The 2D-torus all-reduce of Mikami et al. 2018 (arXiv 1811.05233, section 2.3 and figure 2).

Three steps on a grid of vertical x horizontal workers: reduce-scatter along the row, all-reduce of what is left along
the column, all-gather along the row. A worker takes 2(H-1) + 2(V-1) steps where a flat ring takes 2(HV-1), and the
column carries only 1/H of the bucket.

The column's all-reduce is a reduce-scatter and an all-gather, phases of their own: so two chunks are on the slow links
at any time, and a link does not fall idle while a worker waits for its neighbour.
"""

import torch.distributed as dist
from torch import Tensor

from pipeline.allreduce.communicators import Communicators, Kind
from pipeline.allreduce.rings import Ring
from pipeline.allreduce.scheme import Lane, Phase, Scheme

KINDS: tuple[Kind, ...] = ("row", "column", "row")
"""The communicators of the backend's own collectives, one a phase."""
RINGS: tuple[Kind, ...] = ("row", "column", "column", "row")
"""The communicators of the rings, one a phase."""


def scheme(communicators: Communicators) -> Scheme:
    """The torus on this worker: rings of messages on gloo, the backend's own collectives on NCCL."""
    if communicators.backend == "nccl":
        return on_collectives(*(communicators.group(kind) for kind in KINDS))
    return on_rings(*(Ring(communicators.port(kind), ahead=True) for kind in RINGS))


def on_rings(row: Ring, column: Ring, column_back: Ring, row_back: Ring) -> Scheme:
    """The torus on two rings a row and two a column: one for the way there, one for the way back."""
    return Scheme(
        (
            Lane(
                (
                    Phase("reduce-scatter, row", row.reduce_scatter),
                    Phase("reduce-scatter, column", lambda chunk: column.reduce_scatter(row.piece(chunk, 0))),
                    Phase("all-gather, column", lambda chunk: column_back.all_gather(row.piece(chunk, 0))),
                    Phase("all-gather, row", row_back.all_gather),
                )
            ),
        )
    )


def on_collectives(row: dist.ProcessGroup, column: dist.ProcessGroup, row_back: dist.ProcessGroup) -> Scheme:
    """The torus in a backend's own collectives, each on a communicator of its own.

    These add, so what is added is divided first: by the row's length before the cast, by the column's between the
    phases. Dividing by all workers at once would lose small fp16 gradients, not dividing would overflow.
    """
    horizontal, vertical = row.size(), column.size()

    def mine(chunk: Tensor) -> Tensor:
        return chunk.view(horizontal, -1)[row.rank()]

    def reduce_scatter(chunk: Tensor) -> None:
        dist.reduce_scatter_single(mine(chunk), chunk, group=row)

    def all_reduce(chunk: Tensor) -> None:
        dist.all_reduce(mine(chunk).mul_(1 / vertical), group=column)

    def all_gather(chunk: Tensor) -> None:
        dist.all_gather_single(chunk, mine(chunk), group=row_back)

    phases = (
        Phase("reduce-scatter, row", reduce_scatter),
        Phase("all-reduce, column", all_reduce),
        Phase("all-gather, row", all_gather),
    )
    return Scheme((Lane(phases),), prescale=1 / horizontal, multiple=horizontal)
