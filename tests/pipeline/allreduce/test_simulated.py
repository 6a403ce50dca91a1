"""Every all-reduce at the paper's size, 34 x 64 = 2176 workers on 544 nodes, simulated in one process with fp16."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from pipeline.allreduce import hierarchical, hybrid, native, ring, torus, tree
from pipeline.allreduce.chunks import Chunk, load
from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.hook import SCHEMES
from pipeline.allreduce.scheme import Lane
from pipeline.allreduce.shapes import double_binary, multicolor, over_nodes
from tests.pipeline.allreduce.simulated import (
    FakeCommunicators,
    RollingPort,
    StackedRing,
    apart,
    post,
    together,
)

GRID = (34, 64)
WORKERS = 2176
NODES = tuple(tuple(range(first, first + 4)) for first in range(0, WORKERS, 4))
"""ABCI's: four GPUs each."""

SMALL = 2.0**-14
"""The smallest normal fp16 number: 2**-14 / 2176 is below half of the smallest subnormal."""
LARGE = 65_000.0
"""Nearly the largest fp16 number, 65,504."""


def torus_of(buckets: Tensor) -> Tensor:
    """The torus on buckets of shape (workers, n)."""
    vertical, horizontal = GRID
    row, column, column_back, row_back = (
        StackedRing(RollingPort(size, dim), ahead=False)
        for size, dim in ((horizontal, -2), (vertical, -3), (vertical, -3), (horizontal, -2))
    )
    work = apart(apart(buckets.view(*GRID, -1), horizontal, -2), vertical, -3)
    work = work.transpose(0, 1).contiguous()  # the pieces of the row, each in those of the column
    run(torus.on_rings(row, column, column_back, row_back).lanes[0], work)
    work = work.transpose(0, 1).contiguous()
    return together(together(work, vertical, -3), horizontal, -2).view(WORKERS, -1)


def ring_of(buckets: Tensor) -> Tensor:
    """The flat ring."""
    return by_ring(ring.scheme(one_of_all(0), ahead=False).lanes[0], buckets)


def hierarchical_of(buckets: Tensor) -> Tensor:
    """The hierarchical all-reduce."""
    return by_node([hierarchical.scheme(worker).lanes[0] for worker in one_node()], buckets)


def hybrid_of_a_large_bucket(buckets: Tensor) -> Tensor:
    """Hybrid from the size on that it takes a ring."""
    size = buckets.shape[1]
    by_way = hybrid.scheme(one_of_all(0), size, ahead=False).lanes
    assert [lane.part(size) for lane in by_way] == [(0, size), (0, 0)]
    return by_ring(by_way[0], buckets)


def hybrid_of_a_small_bucket(buckets: Tensor) -> Tensor:
    """Hybrid below that size."""
    size = buckets.shape[1]
    of_workers = [hybrid.scheme(worker, size + 1, ahead=False).lanes for worker in one_node()]
    assert [lane.part(size) for lane in of_workers[0]] == [(0, 0), (0, size)]
    return by_node([lanes[1] for lanes in of_workers], buckets)


def tree_of(buckets: Tensor) -> Tensor:
    """The double binary tree."""
    return by_trees(buckets, double_binary(len(NODES)))


def multicolor_of(buckets: Tensor) -> Tensor:
    """Trees of four colors."""
    return by_trees(buckets, multicolor(len(NODES), 4))


SIMULATED: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "torus": (torus_of, 3 * WORKERS),
    "ring": (ring_of, 3 * WORKERS),
    "hierarchical": (hierarchical_of, 3 * len(NODES)),
    "hybrid": (hybrid_of_a_large_bucket, 3 * WORKERS),
    "hybrid, a small bucket": (hybrid_of_a_small_bucket, 3 * len(NODES)),
    "tree": (tree_of, 2 * 3 * 50),
    "multicolor": (multicolor_of, 4 * 3 * 50),
}
"""Every algorithm but the backend's own, and the size of its buckets: one that its pieces divide."""


def run(lane: Lane, work: Tensor) -> None:
    """Send a chunk of all workers through a lane."""
    for phase in lane.phases:
        phase.run(work)


def by_ring(lane: Lane, buckets: Tensor) -> Tensor:
    """A lane of rings over all workers."""
    work = apart(buckets, WORKERS, -2)
    run(lane, work)
    return together(work, WORKERS, -2)


def by_node(lanes: list[Lane], buckets: Tensor) -> Tensor:
    """A lane of each worker of a node; every call works on that worker of all nodes."""
    of_nodes = buckets.view(len(NODES), len(lanes), -1)
    works = [apart(of_nodes[:, worker], len(NODES), -2) for worker in range(len(lanes))]
    for lane, work in list(zip(lanes, works, strict=True))[:0:-1]:  # the others, from the end of the chain on
        lane.phases[0].run(work)
    run(lanes[0], works[0])  # the master: reduce, ring, broadcast
    for lane, work in list(zip(lanes, works, strict=True))[1:]:
        for phase in lane.phases[1:]:
            phase.run(work)
    return torch.stack([together(work, len(NODES), -2) for work in works], 1).view(WORKERS, -1)


def by_trees(buckets: Tensor, trees: tuple[tree.Tree, ...]) -> Tensor:
    """Every worker on its own, children before parents and then parents before children."""
    letters = post()
    schemes = [tree.on_trees(trees, FakeCommunicators(rank, GRID, NODES, letters)) for rank in range(WORKERS)]
    for index, nodes in enumerate(trees):
        first, last = schemes[0].lanes[index].part(buckets.shape[1])
        levels = over_nodes(nodes, NODES, index).levels
        from_the_root = sorted(range(WORKERS), key=lambda rank: levels[rank])
        for phase, order in enumerate((from_the_root[::-1], from_the_root, from_the_root)):
            for rank in order:
                schemes[rank].lanes[index].phases[phase].run(buckets[rank, first:last])
    return buckets


def one_of_all(rank: int) -> Communicators:
    """A worker that stands for all others of its rings."""
    return FakeCommunicators(rank, GRID, NODES, post(), rolling=("world", "masters"))


def one_node() -> list[Communicators]:
    """The workers of a node, each of which stands for those of its place on all nodes."""
    letters = post()
    return [FakeCommunicators(rank, GRID, NODES, letters, rolling=("world", "masters")) for rank in NODES[0]]


@dataclass(frozen=True)
class Averaged:
    """A third of every bucket, (workers, n): of SMALL, of LARGE, of random numbers around one; after averaging."""

    small: Tensor
    large: Tensor
    random: Tensor
    mean: Tensor
    """Of the random ones, (n,) fp64."""


@pytest.fixture(scope="module", params=list(SIMULATED))
def averaged(request: pytest.FixtureRequest) -> Averaged:
    """Every worker's bucket, after an all-reduce."""
    simulate, size = SIMULATED[request.param]
    buckets = torch.randn(WORKERS, size, generator=torch.Generator().manual_seed(0)).half()
    buckets[:, 0::3] = SMALL
    buckets[:, 1::3] = LARGE
    mean = buckets[:, 2::3].double().mean(0)
    with pytest.MonkeyPatch.context() as patch:
        for module in (ring, hierarchical):
            patch.setattr(module, "Ring", StackedRing)
        patch.setattr(tree, "over_nodes", functools.cache(over_nodes))  # each worker makes it; here that is 2176 times
        after = simulate(buckets)
    return Averaged(after[:, 0::3], after[:, 1::3], after[:, 2::3], mean)


def test_small_gradients_survive(averaged: Averaged) -> None:
    torch.testing.assert_close(averaged.small.float(), torch.full(averaged.small.shape, SMALL), rtol=0.02, atol=0)


def test_nothing_overflows_near_65504(averaged: Averaged) -> None:
    torch.testing.assert_close(averaged.large.float(), torch.full(averaged.large.shape, LARGE), rtol=0.02, atol=0)


def test_random_gradients_are_averaged_alike_on_all_workers(averaged: Averaged) -> None:
    assert (averaged.random == averaged.random[0]).all()
    # Roundings weigh as much as the workers in what is rounded: together no more than that of one number around one,
    # 2**-12. One worker left out would give 1/2176, twice as much.
    error = (averaged.random[0].double() - averaged.mean).square().mean().sqrt()
    assert error < 2.0**-12 < 1 / WORKERS


def test_every_algorithm_is_simulated_but_the_backends_own() -> None:
    assert set(SIMULATED) >= set(SCHEMES) - {"native"}


def test_the_backends_own_divides_by_all_and_loses_small_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    communicators = FakeCommunicators(0, GRID, NODES, post())
    monkeypatch.setattr(communicators, "group", lambda _: SimpleNamespace(size=lambda: WORKERS))
    prescale = native.scheme(communicators).prescale
    work = torch.empty(2, dtype=torch.float16)
    load(torch.tensor([SMALL, LARGE]), work, Chunk(lane=0, first=0, last=2, at=0, length=2), prescale)
    assert work[0] == 0
    assert work[1] == pytest.approx(LARGE / WORKERS, rel=2**-11)
