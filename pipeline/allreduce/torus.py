"""The 2D-torus all-reduce of Mikami et al. 2018 (arXiv 1811.05233, section 2.3 and figure 2).

Three steps on a grid of vertical x horizontal workers: reduce-scatter along the row, all-reduce of what is left along
the column, all-gather along the row. A worker takes 2(H-1) + 2(V-1) steps where a flat ring takes 2(HV-1), and the
column carries only 1/H of the bucket.
"""

from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from pipeline.allreduce.rings import Buffers


class Phases(Protocol):
    """The three steps, on one worker. `wire` is the type that travels."""

    horizontal: int
    vertical: int
    wire: torch.dtype

    def scratch(self, shape: torch.Size, device: torch.device) -> Tensor:
        """An fp32 tensor for the padded bucket, with whatever it holds."""
        ...

    def reduce_scatter_row(self, work: Tensor) -> Tensor:
        """Sum `work`, (..., horizontal, chunk) fp32, over the row; this worker's chunk, fp32."""
        ...

    def all_reduce_column(self, chunk: Tensor) -> Tensor:
        """Sum `chunk`, (..., chunk) fp32, over the column; the sum, rounded to the wire's type."""
        ...

    def all_gather_row(self, chunk: Tensor) -> Tensor:
        """Every chunk of the row, (..., horizontal, chunk), in the wire's type."""
        ...


def average(bucket: Tensor, phases: Phases) -> None:
    """Average `bucket`, shape (..., n), in place.

    It is padded with zeros so that a row cuts it into equal chunks and a column cuts a chunk into equal parts. Scaled
    in fp32 by 1/horizontal before it is cast for the row and by 1/vertical before the column, so that no partial sum
    exceeds the largest gradient and no gradient is divided by all workers at once.
    """
    size = bucket.shape[-1]
    if size == 0:
        return
    horizontal, vertical = phases.horizontal, phases.vertical
    chunk = -(-size // (horizontal * vertical)) * vertical
    work = phases.scratch(torch.Size([*bucket.shape[:-1], horizontal * chunk]), bucket.device)
    torch.mul(bucket.to(torch.float32), 1 / horizontal, out=work[..., :size])
    work[..., size:] = 0
    mine = phases.reduce_scatter_row(work.unflatten(-1, (horizontal, chunk)))
    summed = phases.all_reduce_column(mine.mul_(1 / vertical))
    bucket.copy_(phases.all_gather_row(summed).flatten(-2)[..., :size])


class RingPhases:
    """The three steps as point-to-point rings, for gloo and for any transport that a Ring has."""

    def __init__(self, row: "RingLike", column: "RingLike", wire: torch.dtype) -> None:
        self.horizontal, self.vertical = row.size, column.size
        self.wire = wire
        self._row, self._column = row, column
        self._buffers = Buffers()

    def scratch(self, shape: torch.Size, device: torch.device) -> Tensor:
        return self._buffers.empty("bucket", shape, torch.float32, device)

    def reduce_scatter_row(self, work: Tensor) -> Tensor:
        return self._row.reduce_scatter(work, self.wire)

    def all_reduce_column(self, chunk: Tensor) -> Tensor:
        return self._column.all_reduce(chunk.unflatten(-1, (self.vertical, -1)), self.wire).flatten(-2)

    def all_gather_row(self, chunk: Tensor) -> Tensor:
        return self._row.all_gather(chunk)


class NativePhases:
    """The three steps as the backend's own collectives, for NCCL."""

    def __init__(self, row: dist.ProcessGroup, column: dist.ProcessGroup, wire: torch.dtype) -> None:
        self.horizontal, self.vertical = row.size(), column.size()
        self.wire = wire
        self._row, self._column = row, column

    def scratch(self, shape: torch.Size, device: torch.device) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=device)  # CUDA's allocator keeps them

    def reduce_scatter_row(self, work: Tensor) -> Tensor:
        mine = work.new_empty(work.shape[-1], dtype=self.wire)
        dist.reduce_scatter_single(mine, work.flatten().to(self.wire), group=self._row)
        return mine.to(torch.float32)

    def all_reduce_column(self, chunk: Tensor) -> Tensor:
        summed = chunk.to(self.wire)
        dist.all_reduce(summed, group=self._column)
        return summed

    def all_gather_row(self, chunk: Tensor) -> Tensor:
        gathered = chunk.new_empty(self.horizontal * chunk.numel())
        dist.all_gather_single(gathered, chunk, group=self._row)
        return gathered.unflatten(0, (self.horizontal, -1))


class RingLike(Protocol):
    """What the torus needs of a ring; pipeline.allreduce.rings.Ring is one."""

    size: int

    def reduce_scatter(self, work: Tensor, wire: torch.dtype) -> Tensor: ...

    def all_reduce(self, work: Tensor, wire: torch.dtype) -> Tensor: ...

    def all_gather(self, mine: Tensor) -> Tensor: ...
