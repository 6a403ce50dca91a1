"""Every all-reduce against a flat mean in fp64, on real process groups: what contract.py promises."""

import hashlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from pipeline.allreduce.hook import SCHEMES, WIRES, Options, build
from tests.pipeline.allreduce.layouts import join
from tests.worlds import run_world

CPU = torch.device("cpu")
GRIDS = [(1, 4), (4, 1), (2, 2), (2, 3), (3, 2)]
ROUNDING = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
"""Half a unit in the last place, relative: IEEE 754 and bfloat16."""
LATE_S = 0.3


def sizes(horizontal: int) -> list[int]:
    return [0, 1, horizontal - 1, 1009, 20_003]


def around_one(size: int, rank: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(1000 * size + rank))


def largest(size: int, _: int) -> Tensor:
    """Nearly the largest fp16 number, 65,504."""
    return torch.full((size,), 65_000.0)


def with_nan(size: int, rank: int) -> Tensor:
    """One NaN, at the second worker's middle."""
    bucket = around_one(size, rank)
    if rank == 1 and size:
        bucket[size // 2] = torch.nan
    return bucket


def with_infinity(size: int, rank: int) -> Tensor:
    """One infinite number, at the last element of the second worker."""
    bucket = around_one(size, rank)
    if rank == 1 and size:
        bucket[-1] = -torch.inf
    return bucket


INPUTS: dict[str, Callable[[int, int], Tensor]] = {
    "around one": around_one,
    "near 65504": largest,
    "NaN on one worker": with_nan,
    "-inf on one worker": with_infinity,
}


@dataclass(frozen=True)
class Outcome:
    """One bucket on one worker."""

    digest: str
    """Of its bytes."""
    error: float
    """Largest difference to the mean in fp64, over the largest finite input; where that is finite."""
    special: bool
    """Whether NaN and Inf stand exactly where the mean has them."""


def average_all(rank: int, world: int, store: dist.Store, algorithm: str) -> dict[Any, Outcome]:
    """Every case on every grid of this world; all sizes of a case are in flight at once, in chunks of 4 KiB."""
    found: dict[Any, Outcome] = {}
    for grid in (grid for grid in GRIDS if grid[0] * grid[1] == world):
        for wire, pipelined in itertools.product(WIRES, (True, False)):
            communicators = join(rank, store, grid)
            options = Options(WIRES[wire], chunk_bytes=4096, pipelined=pipelined, ring_from_bytes=8192)
            all_reduce = build(algorithm, communicators, options, CPU)
            for kind, make in INPUTS.items():
                buckets = [make(size, rank).to(WIRES[wire]) for size in sizes(grid[1])]
                if rank == world - 1 and kind == "around one":
                    time.sleep(LATE_S)  # a worker that comes late
                futures = [all_reduce(bucket) for bucket in buckets]
                for size, bucket, future in zip(sizes(grid[1]), buckets, futures, strict=True):
                    assert future.wait().data_ptr() == bucket.data_ptr(), "averaged in place"
                    every = [make(size, r).to(WIRES[wire]).double() for r in range(world)]
                    found[grid, wire, pipelined, kind, size] = compare(bucket, torch.stack(every))
            all_reduce.close()
            communicators.close()
    return found


def compare(bucket: Tensor, every: Tensor) -> Outcome:
    """One worker's bucket with the inputs of all, (workers, n)."""
    digest = hashlib.sha256(bucket.view(torch.uint8).numpy().tobytes()).hexdigest()
    mean = every.mean(0)
    finite = mean.isfinite()
    special = torch.equal(bucket.isnan(), mean.isnan()) and torch.equal(bucket.isinf(), mean.isinf())
    if not finite.any():
        return Outcome(digest, 0.0, special)
    error = (bucket.double() - mean)[finite].abs().max().item()
    return Outcome(digest, error / every[every.isfinite()].abs().max().item(), special)


@pytest.fixture(scope="module", params=list(SCHEMES))
def averaged(request: pytest.FixtureRequest) -> list[dict[Any, Outcome]]:
    """What every rank of a world of 4 and of one of 6 got, merged by rank; ranks 4 and 5 know the second only."""
    four = run_world(4, average_all, request.param)
    six = run_world(6, average_all, request.param)
    return [{**(four[rank] if rank < 4 else {}), **six[rank]} for rank in range(6)]


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid[0]}x{grid[1]}")
def test_it_is_the_mean_and_every_worker_has_the_same_bits(
    averaged: list[dict[Any, Outcome]], grid: tuple[int, int], wire: str, kind: str
) -> None:
    workers = grid[0] * grid[1]
    roundings = workers + 2  # one a hop, the scaling, the cast back
    for pipelined, size in itertools.product((True, False), sizes(grid[1])):
        outcomes = [of_rank[grid, wire, pipelined, kind, size] for of_rank in averaged[:workers]]
        assert len({outcome.digest for outcome in outcomes}) == 1
        assert all(outcome.special for outcome in outcomes)
        assert max(outcome.error for outcome in outcomes) <= roundings * ROUNDING[wire]
