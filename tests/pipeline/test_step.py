"""One update: an overflow on one worker is skipped by all, starting leaves nothing behind, labels are smoothed."""

from math import log

import pytest
import torch
import torch.distributed as dist

from jobs.compose import compose
from pipeline import models, workers
from pipeline.config import make_plan
from pipeline.data.loader import Batch
from pipeline.optim.schedule import position
from pipeline.step import Step
from tests.worlds import one_node, run_world, world_of_one

WORDS = ["exp=exp5", "model.stem=4", "model.widths=[4]", "model.blocks=[1]", "data.image_size=12"]


def batch(rank: int, *, value: float | None = None) -> Batch:
    images = torch.randn(16, 3, 12, 12, generator=torch.Generator().manual_seed(rank))
    if value is not None:
        images[3, 1, 5, 5] = value
    return Batch(images.contiguous(memory_format=torch.channels_last), torch.arange(16) % 10)


def updates(rank: int, size: int, store: dist.Store) -> list[tuple[bool, float, float]]:
    """Four updates, the third with an infinite pixel on worker 2: (skipped, loss scale before it, a sum of weights)."""
    config = compose(WORDS)
    plan = make_plan(config)
    me = workers.connect(config.site, plan.grid, store, one_node(rank, size), 60.0)
    step = Step(config, me)
    found = []
    for number in range(4):
        here = position(config.optim, plan, 100 + number)
        outcome = step.update([batch(rank, value=torch.inf if (number, rank) == (2, 2) else None)], here)
        weights = sum(parameter.double().sum().item() for parameter in step.model.parameters())
        found.append((outcome.skipped, outcome.loss_scale, weights))
    step.all_reduce.close()
    return found


def test_an_overflow_on_one_worker_is_skipped_by_all_alike() -> None:
    outcomes = run_world(4, updates)
    assert all(outcome == outcomes[0] for outcome in outcomes)
    skipped, scales, weights = zip(*outcomes[0], strict=True)
    assert skipped == (False, False, True, False)
    assert scales == (1024.0, 1024.0, 1024.0, 512.0)
    assert weights[1] == weights[2]
    assert len(set(weights)) == 3


def untouched(rank: int, size: int, store: dist.Store) -> bool:
    """Whether a step that did no update holds the network as it is built."""
    config = compose(WORDS)
    me = workers.connect(config.site, make_plan(config).grid, store, one_node(rank, size), 60.0)
    step = Step(config, me)
    torch.manual_seed(config.seed)
    fresh = models.build(config.model).state_dict()
    state = step.model.state_dict()
    gone = all(parameter.grad is None for parameter in step.model.parameters())
    step.all_reduce.close()
    return gone and all(torch.equal(value, state[name]) for name, value in fresh.items())


def test_fixing_the_buckets_leaves_nothing_behind() -> None:
    assert all(run_world(4, untouched))


@pytest.mark.parametrize(("experiment", "smoothing"), [("flash", 0.1), ("exp5", 0.0)])
def test_labels_are_smoothed_as_the_recipe_says(experiment: str, smoothing: float) -> None:
    # Logits (2, 0, 0, …) for label 0 of 10: log-probabilities 2 - s and -s, s = log(e^2 + 9). The label has
    # 1 - smoothing + smoothing / 10 of the weight and each other class smoothing / 10.
    config = compose([f"exp={experiment}", *WORDS[1:], "workers=1", "precision.loss_scale=null"])
    plan = make_plan(config)
    with world_of_one(config.site) as me:
        step = Step(config, me)
        with torch.no_grad():
            step.model.fc.weight.zero_()  # type: ignore[union-attr, operator]
            step.model.fc.bias.copy_(torch.tensor([2.0] + [0.0] * 9))  # type: ignore[union-attr, operator]
        images = batch(0)
        outcome = step.update(
            [Batch(images.images, torch.zeros(16, dtype=torch.int64))], position(config.optim, plan, 0)
        )
        step.all_reduce.close()
    s = log(2.718281828459045**2 + 9)
    expected = -(1 - smoothing + smoothing / 10) * (2 - s) + 9 * smoothing / 10 * s
    assert outcome.loss.item() == pytest.approx(expected, rel=1e-6)
