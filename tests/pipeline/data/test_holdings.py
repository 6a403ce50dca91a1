"""Who holds what: against sets worked out sample by sample."""

import numpy as np
import pytest

from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.data import holdings
from pipeline.data.epochs import Epochs

PLAN = make_plan(compose(["exp=exp5", "workers=4"]))
SMALL = make_plan(compose(["exp=exp5", "workers=4", "data.train_samples=23"]))
"""Less than one update's 64: an epoch wraps around more than twice."""
LAYOUTS = {"two nodes": ((0, 1), (2, 3)), "four nodes": ((0,), (1,), (2,), (3,)), "uneven": ((0,), (1, 2, 3))}


def wanted(epochs: Epochs, epoch: int) -> list[set[int]]:
    """The samples that each node's workers take."""
    stage = epochs.plan.stage_at(epoch)
    share = stage.per_worker_batch * stage.micro_batches
    return [
        {
            sample
            for update in epochs.slots(epoch).tolist()
            for worker in workers
            for sample in update[worker * share : (worker + 1) * share]
        }
        for workers in epochs.layout
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("plan", [PLAN, SMALL], ids=["an epoch", "less than an update"])
def test_what_arrives_is_what_is_needed_and_comes_from_who_has_it(layout: str, plan: object) -> None:
    epochs = Epochs(1, plan, LAYOUTS[layout])  # type: ignore[arg-type]
    size = np.random.default_rng(0).integers(1, 1000, PLAN.samples)[: epochs.plan.samples]
    nodes, rounds = epochs.nodes, 3
    before = holdings.staged(size, nodes)
    held = [set(np.flatnonzero(before == node).tolist()) for node in range(nodes)]
    for epoch in (0, 1, 30):
        after, needed = holdings.needed(epochs, epoch), wanted(epochs, epoch)
        words = (rounds, size, nodes)
        arriving = [holdings.arrivals(before, after, node, *words) for node in range(nodes)]
        leaving = [holdings.departures(before, after, node, *words) for node in range(nodes)]
        for node in range(nodes):
            assert sorted(arriving[node].samples.tolist()) == sorted(needed[node])
            assert set(leaving[node].samples.tolist()) <= held[node]
            assert size[arriving[node].samples].sum() == arriving[node].counts.sum()
            assert after.bytes_of_nodes(size, nodes)[node] == sum(size[list(needed[node])])
        for here in range(nodes):  # what one sends another is what that expects, round by round
            for there in range(nodes):
                assert leaving[here].counts[:, there].tolist() == arriving[there].counts[:, here].tolist()
        most = max(part.counts.sum(axis=1).max() for part in [*arriving, *leaving])
        assert holdings.largest_sends(before, after, rounds, size, nodes) == most
        before, held = after.holder, needed


def test_shards_are_dealt_in_neighbouring_runs_of_about_equal_bytes() -> None:
    size = np.random.default_rng(0).integers(1, 1000, 5000)
    node = holdings.staged(size, 7)
    assert np.all(np.diff(node) >= 0)
    of_nodes = np.bincount(node, weights=size)
    assert len(of_nodes) == 7
    assert np.ptp(of_nodes) <= 2000


@pytest.mark.parametrize("workers", [4, 2])
def test_every_round_brings_every_node_about_as_much(workers: int) -> None:
    layout = tuple((worker,) for worker in range(workers))
    epochs = Epochs(1, make_plan(compose(["exp=exp5", f"workers={workers}"])), layout)
    size = np.ones(PLAN.samples, dtype=np.int64)
    for node in range(workers):
        arrive = holdings.arrivals(holdings.staged(size, workers), holdings.needed(epochs, 0), node, 8, size, workers)
        of_rounds = arrive.counts.sum(axis=1)
        assert of_rounds.max() <= 1.2 * of_rounds.mean()


def test_a_sample_that_is_used_early_moves_early() -> None:
    epochs = Epochs(1, PLAN, LAYOUTS["two nodes"])
    size = np.ones(PLAN.samples, dtype=np.int64)
    arrive = holdings.arrivals(holdings.staged(size, 2), holdings.needed(epochs, 0), 0, 4, size, 2)
    counts = arrive.counts.sum(axis=1)
    used_by_update = epochs.slots(0)[:9, :32].ravel()  # of 37 updates, node 0's part
    assert set(used_by_update.tolist()) <= set(arrive.samples[: counts[0]].tolist())
