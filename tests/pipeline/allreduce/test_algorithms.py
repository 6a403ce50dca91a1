"""Every all-reduce against a flat mean in fp64, on real process groups: what contract.py promises.

One world of 4 and one of 6 go through all of them: a world is slow to start, a bucket is not.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from pipeline.allreduce.chunks import ThreadEngine
from pipeline.allreduce.hook import SCHEMES, WIRES, Options
from tests.pipeline.allreduce.layouts import join, rows
from tests.worlds import run_world

Nodes = list[list[int]]

ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in SCHEMES},
    "ring, ahead": ("ring", {"ahead": True}),
    "multicolor, 2 colors": ("multicolor", {"colors": 2}),
    "multicolor, 3 colors": ("multicolor", {"colors": 3}),
}
"""Every algorithm as it is configured where nothing is said, and some in other words: (name, options)."""

LAYOUTS: dict[str, tuple[tuple[int, int], Nodes]] = {
    **{f"{v}x{h}": ((v, h), rows((v, h))) for v, h in [(1, 4), (4, 1), (2, 2), (2, 3), (3, 2)]},
    "2x2, nodes of 3 and 1": ((2, 2), [[0, 1, 2], [3]]),
    "2x3, nodes of 1, 2 and 3": ((2, 3), [[0], [1, 2], [3, 4, 5]]),
}
"""Grid, and the ranks on every node: the rows, or nodes that differ in size."""

BY_NODE = ("hierarchical", "hybrid", "multicolor", "tree")
"""Algorithms that look at the nodes."""

ROUNDING = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
"""Half a unit in the last place, relative: IEEE 754 and bfloat16."""

ENGINES = [*((wire, True) for wire in WIRES), ("fp16", False)]
"""The type on the wire, and whether phases run beside each other."""

CHUNK_BYTES = 4096
RING_FROM_BYTES = 4096
"""Between the sizes, so that hybrid takes both of its ways."""

LATE_S = 0.2


def around_one(size: int, rank: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(1000 * size + rank))


def hostile(size: int, rank: int) -> Tensor:
    """Nearly the largest fp16 number, 65,504; from the second worker a NaN in the middle and -Inf at the end."""
    bucket = torch.full((size,), 65_000.0)
    if rank == 1:
        bucket[size // 2], bucket[-1] = torch.nan, -torch.inf
    return bucket


INPUTS: dict[str, Callable[[int, int], Tensor]] = {"around one": around_one, "near 65504, NaN, -Inf": hostile}

SEVERAL_CHUNKS = 2503


def cases(horizontal: int) -> list[tuple[str, int]]:
    """Inputs and sizes: none, one, one too few for the row, several chunks; the hostile ones at one size."""
    usual = [("around one", size) for size in (0, 1, horizontal - 1, SEVERAL_CHUNKS)]
    return [*usual, ("near 65504, NaN, -Inf", 67)]


@dataclass(frozen=True)
class Outcome:
    """One bucket on one worker."""

    digest: str
    """Of its bytes."""
    error: float
    """Largest difference to the mean in fp64, over the largest finite input; where that is finite."""
    special: bool
    """Whether NaN and Inf stand exactly where the mean has them."""


def pairs() -> Iterator[tuple[str, str]]:
    """Every algorithm on every layout that means something to it."""
    for algorithm, (name, _) in ALGORITHMS.items():
        for layout, (grid, nodes) in LAYOUTS.items():
            if name in BY_NODE or nodes == rows(grid):
                yield algorithm, layout


def average_all(rank: int, world: int, store: dist.Store) -> dict[Any, Outcome]:
    """Every case on every layout of this world; all buckets of an engine are in flight at once."""
    found: dict[Any, Outcome] = {}
    for algorithm, layout in pairs():
        grid, nodes = LAYOUTS[layout]
        if grid[0] * grid[1] != world:
            continue
        name, options = ALGORITHMS[algorithm]
        communicators = join(rank, store, grid, nodes)
        scheme = SCHEMES[name](
            communicators, Options(torch.float32, chunk_bytes=CHUNK_BYTES, ring_from_bytes=RING_FROM_BYTES, **options)
        )
        for wire, pipelined in ENGINES:
            engine = ThreadEngine(scheme, WIRES[wire], chunk_bytes=CHUNK_BYTES, pipelined=pipelined, name=name)
            buckets = [INPUTS[kind](size, rank).to(WIRES[wire]) for kind, size in cases(grid[1])]
            if rank == world - 1 and layout == "2x2" and (wire, pipelined) == ("fp16", True):
                time.sleep(LATE_S)  # a worker that comes late
            futures = [engine(bucket) for bucket in buckets]
            for (kind, size), bucket, future in zip(cases(grid[1]), buckets, futures, strict=True):
                assert future.wait().data_ptr() == bucket.data_ptr(), "averaged in place"
                every = [INPUTS[kind](size, r).to(WIRES[wire]).double() for r in range(world)]
                found[algorithm, layout, wire, pipelined, kind, size] = compare(bucket, torch.stack(every))
            engine.close()
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


@pytest.fixture(scope="module")
def averaged() -> list[dict[Any, Outcome]]:
    """What every rank of a world of 4 and of one of 6 got, merged by rank; ranks 4 and 5 know the second only."""
    four, six = run_world(4, average_all), run_world(6, average_all)
    return [{**(four[rank] if rank < 4 else {}), **six[rank]} for rank in range(6)]


@pytest.mark.parametrize(("algorithm", "layout"), list(pairs()))
def test_it_is_the_mean_and_every_worker_has_the_same_bits(
    averaged: list[dict[Any, Outcome]], algorithm: str, layout: str
) -> None:
    grid, _ = LAYOUTS[layout]
    workers = grid[0] * grid[1]
    roundings = workers + 2  # one a hop, the scaling, the cast back
    for wire, pipelined in ENGINES:
        for kind, size in cases(grid[1]):
            outcomes = [of_rank[algorithm, layout, wire, pipelined, kind, size] for of_rank in averaged[:workers]]
            case = f"{wire}, pipelined={pipelined}, {kind}, {size} elements"
            assert len({outcome.digest for outcome in outcomes}) == 1, case
            assert all(outcome.special for outcome in outcomes), case
            assert max(outcome.error for outcome in outcomes) <= roundings * ROUNDING[wire], case
