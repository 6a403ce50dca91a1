"""Ties an all-reduce to DistributedDataParallel, and makes one from its configuration."""

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from pipeline.allreduce import native, torus
from pipeline.allreduce.chunks import Average, StreamEngine, ThreadEngine
from pipeline.allreduce.contract import AllReduce
from pipeline.allreduce.rings import GroupRing

WIRES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


def build(
    name: str,
    wire: str,
    *,
    row: dist.ProcessGroup,
    column: dist.ProcessGroup,
    world: dist.ProcessGroup,
    device: torch.device,
) -> AllReduce:
    """The all-reduce called `name`, on this worker's row and column of the grid and on all workers.

    wire: `fp16`, `bf16` or `fp32`, the type that travels. Raises KeyError for a name that there is not.
    """
    on_gpu = device.type == "cuda"
    averages: dict[str, Callable[[], Average]] = {
        "torus": lambda: partial(torus.average, phases=_phases(row, column, WIRES[wire], on_gpu)),
        "native": lambda: partial(native.average, group=world, wire=WIRES[wire]),
    }
    average = averages[name]()
    return StreamEngine(average, device) if on_gpu else ThreadEngine(average, name=f"allreduce-{name}")


def register(model: DistributedDataParallel, all_reduce: AllReduce) -> None:
    """Let `all_reduce` average the gradients of `model`."""
    model.register_comm_hook(all_reduce, _average_bucket)


def _average_bucket(all_reduce: AllReduce, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    return all_reduce(bucket.buffer(), last=bucket.is_last())


def _phases(row: dist.ProcessGroup, column: dist.ProcessGroup, wire: torch.dtype, on_gpu: bool) -> torus.Phases:
    if on_gpu:
        return torus.NativePhases(row, column, wire)
    return torus.RingPhases(GroupRing(row), GroupRing(column), wire)
