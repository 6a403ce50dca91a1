"""Every all-reduce by its name, and how one is tied to DistributedDataParallel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from pipeline.allreduce import hierarchical, hybrid, multicolor, native, ring, torus, tree
from pipeline.allreduce.chunks import StreamEngine, ThreadEngine
from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.contract import AllReduce
from pipeline.allreduce.scheme import Scheme

WIRES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True)
class Options:
    """What an all-reduce may be told; see conf/allreduce/."""

    wire: torch.dtype
    """The type that travels."""
    chunk_bytes: int
    """Largest chunk, in bytes on the wire."""
    pipelined: bool = True
    """Whether every phase has a thread of its own (gloo)."""
    colors: int = 4
    """Trees of `multicolor`."""
    ring_from_bytes: int = 1 << 20
    """`hybrid`: the size on the wire from which it takes the ring."""
    ahead: bool = False
    """Whether the flat ring posts all its receives at the start."""


SCHEMES: Mapping[str, Callable[[Communicators, Options], Scheme]] = {
    "torus": lambda communicators, _: torus.scheme(communicators),
    "ring": lambda communicators, options: ring.scheme(communicators, ahead=options.ahead),
    "hierarchical": lambda communicators, _: hierarchical.scheme(communicators),
    "hybrid": lambda communicators, options: hybrid.scheme(
        communicators, -(-options.ring_from_bytes // options.wire.itemsize), ahead=options.ahead
    ),
    "multicolor": lambda communicators, options: multicolor.scheme(communicators, options.colors),
    "tree": lambda communicators, _: tree.scheme(communicators),
    "native": lambda communicators, _: native.scheme(communicators),
}
"""Every algorithm by its name in conf/allreduce/."""


def build(name: str, communicators: Communicators, options: Options, device: torch.device) -> AllReduce:
    """The all-reduce called `name` on this worker; all workers build the same ones in the same order.

    Raises KeyError for a name that there is not.
    """
    scheme = SCHEMES[name](communicators, options)
    if communicators.backend == "nccl":
        return StreamEngine(scheme, options.wire, chunk_bytes=options.chunk_bytes, device=device)
    return ThreadEngine(
        scheme, options.wire, chunk_bytes=options.chunk_bytes, pipelined=options.pipelined, name=f"allreduce-{name}"
    )


class Hook(Protocol):
    """What averages a bucket; an all-reduce is one."""

    def __call__(self, bucket: Tensor, *, last: bool) -> torch.futures.Future[Tensor]: ...


def register(model: DistributedDataParallel, all_reduce: Hook) -> None:
    """Let `all_reduce` average the gradients of `model`."""
    model.register_comm_hook(all_reduce, _average_bucket)


def _average_bucket(all_reduce: Hook, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    return all_reduce(bucket.buffer(), last=bucket.is_last())
