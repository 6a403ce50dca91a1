"""The backend's own all-reduce: what torch.distributed users have today, as the yardstick for ours.

It adds, so all of 1/workers is applied before the cast: it cannot overflow, and small fp16 gradients lose more than
with the others, which pass on means.
"""

import torch.distributed as dist
from torch import Tensor

from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.scheme import Lane, Phase, Scheme


def scheme(communicators: Communicators) -> Scheme:
    """The backend's all-reduce over all workers."""
    group = communicators.group("world")

    def all_reduce(chunk: Tensor) -> None:
        if chunk.numel():
            dist.all_reduce(chunk, group=group)

    return Scheme((Lane((Phase("all-reduce", all_reduce),)),), prescale=1 / group.size())
