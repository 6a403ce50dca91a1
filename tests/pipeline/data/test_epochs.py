"""The order of samples: global shuffles whatever the nodes, or shuffles on the nodes between exchanges."""

import numpy as np
import pytest

from jobs.compose import compose
from pipeline.config import Plan, make_plan
from pipeline.data import order
from pipeline.data.epochs import Epochs

PLAN = make_plan(compose(["exp=exp5", "workers=4"]))
TWO_NODES = ((0, 1), (2, 3))


def node_of(epochs: Epochs, epoch: int) -> np.ndarray:
    """The node of every slot of an epoch, from the workers' parts."""
    stage = PLAN.stage_at(epoch)
    return np.array(
        [
            node
            for node, workers in enumerate(epochs.layout)
            for _ in workers
            for _ in range(stage.micro_batches * stage.per_worker_batch)
        ]
    )


@pytest.mark.parametrize("epoch", [0, 29, 30, 60, 89])
def test_an_epoch_is_its_permutation_and_wraps_around_whatever_the_nodes(epoch: int) -> None:
    alone, two = Epochs(3, PLAN), Epochs(3, PLAN, TWO_NODES)
    slots = two.slots(epoch)
    stage = PLAN.stage_at(epoch)
    assert slots.shape == (stage.updates_per_epoch, stage.total_batch)
    permutation = order.permutation(3, epoch, PLAN.samples)
    assert slots.ravel()[: PLAN.samples].tolist() == permutation.tolist()
    assert slots.ravel()[PLAN.samples :].tolist() == permutation[: slots.size - PLAN.samples].tolist()
    assert np.array_equal(alone.slots(epoch), slots)


def test_between_exchanges_a_node_shuffles_what_it_has() -> None:
    epochs = Epochs(0, PLAN, TWO_NODES, exchange_every=4)
    assert [epochs.base(epoch) for epoch in (0, 3, 4, 29, 30, 33, 34, 61)] == [0, 0, 4, 28, 30, 30, 34, 60]
    slots = {epoch: epochs.slots(epoch) for epoch in range(9)}
    assert np.array_equal(slots[4], Epochs(0, PLAN).slots(4))
    node = node_of(epochs, 4)
    drawn = (np.arange(slots[4].size) < PLAN.samples).reshape(slots[4].shape)
    for here in range(2):
        own = set(slots[4][drawn & (node == here)].tolist())
        orders = [slots[epoch][:, node == here].ravel() for epoch in range(5, 8)]
        for local in orders:
            assert set(local.tolist()) == own
            first = local[: len(own)]
            assert sorted(first.tolist()) == sorted(own)
            assert np.array_equal(local[len(own) :], first[: len(local) - len(own)])
        assert len({local.tobytes() for local in orders}) == 3
        assert set(slots[8][:, node == here].ravel().tolist()) != own
    for epoch in range(9):
        assert set(slots[epoch].ravel().tolist()) == set(range(PLAN.samples))


def test_nodes_may_have_different_numbers_of_workers() -> None:
    plan: Plan = make_plan(compose(["exp=exp5", "workers=4"]))
    epochs = Epochs(0, plan, ((0,), (1, 2, 3)))
    assert np.bincount(epochs.node_of_slot(plan.stages[0])).tolist() == [16, 48]
