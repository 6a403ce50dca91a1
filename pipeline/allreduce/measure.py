"""Times an all-reduce as a group of workers sees it: from a barrier to the last worker's end."""

import time

import torch
import torch.distributed as dist
from torch import Tensor

from pipeline.allreduce.contract import AllReduce


def seconds(all_reduce: AllReduce, buckets: list[Tensor], group: dist.ProcessGroup, repeats: int) -> list[float]:
    """What averaging `buckets`, all handed over at once, takes; of each repeat the slowest worker's time.

    All workers of `group` call it together and get the same figures.
    """
    taken = []
    for _ in range(repeats):
        dist.barrier(group)
        began = time.perf_counter()
        for future in [all_reduce(bucket, last=bucket is buckets[-1]) for bucket in buckets]:
            future.wait()
        if buckets and buckets[0].is_cuda:
            torch.cuda.synchronize(buckets[0].device)
        taken.append(time.perf_counter() - began)
    slowest = torch.tensor(taken, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX, group=group)
    return slowest.tolist()
