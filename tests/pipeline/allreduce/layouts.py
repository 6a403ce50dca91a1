"""Workers of an all-reduce in tests: a world's communicators on a grid, each row a node unless said otherwise."""

from collections.abc import Sequence

import torch.distributed as dist

from pipeline.allreduce.communicators import Communicators


def rows(grid: tuple[int, int]) -> list[list[int]]:
    """The ranks of every row."""
    vertical, horizontal = grid
    return [[row * horizontal + column for column in range(horizontal)] for row in range(vertical)]


def join(
    rank: int,
    store: dist.Store,
    grid: tuple[int, int],
    nodes: Sequence[Sequence[int]] | None = None,
    timeout_s: float = 60.0,
) -> Communicators:
    """Start torch.distributed on gloo; the communicators of this worker. nodes: the ranks on each; None: the rows."""
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=store, rank=rank, world_size=grid[0] * grid[1])
    return Communicators(rank, grid, nodes or rows(grid), backend="gloo", timeout_s=timeout_s)
