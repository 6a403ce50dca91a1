"""The backend's own all-reduce: what torch.distributed users have today, as the yardstick for ours.

One phase, so all of 1/workers is applied before the cast: it cannot overflow, and small fp16 gradients lose more than
on the torus.
"""

import torch
import torch.distributed as dist
from torch import Tensor


def average(bucket: Tensor, group: dist.ProcessGroup, wire: torch.dtype) -> None:
    """Average `bucket`, shape (n,), in place over `group`."""
    if bucket.numel() == 0:
        return
    scaled = (bucket.to(torch.float32) / group.size()).to(wire)
    dist.all_reduce(scaled, group=group)
    bucket.copy_(scaled)
