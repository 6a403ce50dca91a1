"""Checks that need a GPU: every all-reduce on NCCL in a world of one, in stream order, and on gloo with CUDA."""

import multiprocessing as mp
import socket
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.hook import SCHEMES, Options, build

SIZES = (0, 1, 1009, 1_000_003)
CHUNK_BYTES = 1 << 18


def check_nccl() -> list[dict[str, Any]]:
    """Every all-reduce on NCCL in a world of one leaves a bucket as it was, also while a stream is busy with it."""
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    store = dist.HashStore()
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=device)
    rows = []
    for name in SCHEMES:
        communicators = Communicators(0, (1, 1), [[0]], backend="nccl", timeout_s=60)
        all_reduce = build(name, communicators, Options(torch.float16, CHUNK_BYTES), device)
        for size in SIZES:
            expected = torch.arange(size, device=device).remainder(251).to(torch.float32)
            bucket = expected.clone()
            all_reduce(bucket).wait()
            rows.append(_row("NCCL, world of 1", name, size, torch.equal(bucket, expected)))
        rows.append(_row("NCCL, stream order", name, SIZES[-1], in_stream_order(all_reduce, device)))
        all_reduce.close()
        communicators.close()
    dist.destroy_process_group()
    return rows


def in_stream_order(all_reduce: Callable[..., torch.futures.Future[torch.Tensor]], device: torch.device) -> bool:
    """Whether buckets still being written are averaged whole, and read only once they are."""
    right = True
    heavy = torch.randn(4096, 4096, device=device)
    for number in range(10):
        bucket = torch.zeros(SIZES[-1], device=device)
        for _ in range(5):
            heavy = (heavy @ heavy).clamp_(-1, 1)  # the stream is busy when the bucket is handed over
        bucket += number
        future = all_reduce(bucket)
        future.wait()  # of a CUDA future: the current stream waits, not the host
        copy = bucket.clone()
        bucket.fill_(-1)  # the next owner of the memory
        right &= bool((copy == number).all().item())
    return right


def check_gloo(processes: int) -> list[dict[str, Any]]:
    """Every all-reduce over gloo on CUDA tensors, between processes that share the GPU."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = mp.get_context("spawn")
    found = context.Queue()
    workers = [context.Process(target=_gloo_worker, args=(rank, processes, port, found)) for rank in range(processes)]
    for worker in workers:
        worker.start()
    errors: dict[str, float] = {}
    try:
        for _ in workers:
            for name, error in found.get(timeout=180).items():
                errors[name] = max(error, errors.get(name, 0.0))
    finally:
        for worker in workers:
            worker.join(10)
            worker.kill()
    bound = (processes + 2) * 2.0**-11  # a rounding a hop, of numbers up to 1
    return [
        _row(f"gloo on CUDA, {processes} workers", name, SIZES[-1], error <= bound) for name, error in errors.items()
    ]


def _gloo_worker(rank: int, size: int, port: int, found: Any) -> None:
    torch.cuda.set_device(0)
    store = dist.TCPStore("127.0.0.1", port, size, rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    grid = (2, size // 2) if size % 2 == 0 else (1, size)
    nodes = [list(range(size))]
    errors = {}
    for name in SCHEMES:
        communicators = Communicators(rank, grid, nodes, backend="gloo", timeout_s=60)
        all_reduce = build(name, communicators, Options(torch.float16, CHUNK_BYTES), torch.device("cuda", 0))
        every = [torch.rand(SIZES[-1], generator=torch.Generator().manual_seed(r)) for r in range(size)]
        bucket = every[rank].cuda()
        all_reduce(bucket).wait()
        mean = torch.stack(every).double().mean(0)
        errors[name] = (bucket.cpu().double() - mean).abs().max().item()
        all_reduce.close()
        communicators.close()
    found.put(errors)
    dist.barrier()
    dist.destroy_process_group()


def _row(what: str, name: str, size: int, right: bool) -> dict[str, Any]:
    return {"check": what, "algorithm": name, "elements": size, "right": right}
