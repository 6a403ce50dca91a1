"""Order, windows and mirrors are pure functions of (seed, epoch, sample), whatever the number of workers."""

import numpy as np
import pytest
from numpy.typing import NDArray

from jobs.compose import compose
from pipeline.config import Plan, make_plan
from pipeline.config.schema import WindowConfig
from pipeline.data import order

IMAGENET = WindowConfig(area=[0.08, 1.0], ratio=[3 / 4, 4 / 3])


def plans() -> list[Plan]:
    return [make_plan(compose(["exp=exp5", f"workers={workers}"])) for workers in (1, 2, 4)]


def seen(plan: Plan, epoch: int) -> list[NDArray[np.int64]]:
    """Each update's samples of an epoch in the order of the workers' micro-batches."""
    stage = plan.stage_at(epoch)
    permutation = order.permutation(0, epoch, plan.samples)
    updates = [order.update_samples(permutation, number, stage) for number in range(stage.updates_per_epoch)]
    return [np.concatenate([order.worker_samples(u, w, stage) for w in range(plan.workers)]) for u in updates]


@pytest.mark.parametrize("epoch", [0, 30, 89])
def test_micro_batches_are_the_same_for_1_2_and_4_workers(epoch: int) -> None:
    one, two, four = (seen(plan, epoch) for plan in plans())
    for a, b, c in zip(one, two, four, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


@pytest.mark.parametrize("epoch", [0, 30, 89])
def test_an_epoch_sees_every_sample_and_wraps_around(epoch: int) -> None:
    plan = plans()[2]
    drawn = np.concatenate([update.ravel() for update in seen(plan, epoch)])
    permutation = order.permutation(0, epoch, plan.samples)
    assert sorted(drawn[: plan.samples].tolist()) == list(range(plan.samples))
    np.testing.assert_array_equal(drawn[plan.samples :], permutation[: len(drawn) - plan.samples])


def test_a_batch_larger_than_the_data_set_wraps_more_than_once() -> None:
    stage = make_plan(compose(["exp=exp5", "data.train_samples=20"])).stages[0]
    drawn = order.update_samples(np.arange(20), 0, stage)
    np.testing.assert_array_equal(drawn, np.arange(64) % 20)


def test_epochs_and_seeds_differ() -> None:
    orders = [order.permutation(seed, epoch, 1000).tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(one) for one in orders}) == 4
    assert order.permutation(3, 7, 1000).tolist() == order.permutation(3, 7, 1000).tolist()


def test_a_window_does_not_depend_on_its_neighbours() -> None:
    samples = np.array([5, 900, 17, 5])
    sizes = np.full(4, 28)
    together = order.windows(1, 2, samples, sizes, sizes, IMAGENET)
    alone = [order.windows(1, 2, samples[i : i + 1], sizes[:1], sizes[:1], IMAGENET)[0] for i in range(4)]
    np.testing.assert_array_equal(together, np.stack(alone))
    np.testing.assert_array_equal(together[0], together[3])


def test_windows_lie_inside_and_have_the_area_and_ratio_asked_for() -> None:
    samples = np.arange(4000)
    widths, heights = np.full(4000, 500), np.full(4000, 375)
    top, left, height, width = order.windows(0, 0, samples, widths, heights, IMAGENET).T
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + height <= 375).all()
    assert (left + width <= 500).all()
    area, ratio = width * height / (500 * 375), width / height
    assert area.min() > 0.075
    assert area.max() <= 1
    assert ratio.min() > 0.74
    assert ratio.max() < 1.35
    # torchvision draws the area uniformly from 0.08 to 1 and rejects what does not fit, so the mean is below 0.54.
    assert 0.40 < area.mean() < 0.54
    assert abs(np.log(ratio).mean()) < 0.05


def test_an_image_no_window_fits_gets_torchvisions_central_one() -> None:
    widths, heights = np.array([1000]), np.array([10])
    narrow = WindowConfig(area=[0.9, 1.0], ratio=[3 / 4, 4 / 3])
    (window,) = order.windows(0, 0, np.array([0]), widths, heights, narrow)
    assert window.tolist() == [0, 493, 10, 13]  # round(10 * 4/3) = 13 wide, (1000 - 13) // 2 = 493 from the left


def test_half_of_the_images_are_mirrored() -> None:
    mirrored = order.mirrors(0, 0, np.arange(10_000))
    assert abs(mirrored.mean() - 0.5) < 0.02
    np.testing.assert_array_equal(mirrored[:10], order.mirrors(0, 0, np.arange(10)))


def test_numbers_are_uniform_and_uncorrelated() -> None:
    draws = order.uniform(0, 0, np.arange(20_000), 4)
    assert draws.min() >= 0
    assert draws.max() < 1
    np.testing.assert_allclose(draws.mean(0), 0.5, atol=0.01)
    np.testing.assert_allclose(np.corrcoef(draws.T), np.eye(4), atol=0.03)


def test_the_generator_is_splitmix64() -> None:
    # First outputs of SplitMix64 seeded with 0, as published with xoshiro's reference code.
    state, outputs = 0, []
    for _ in range(3):
        outputs.append(int(order._mix(np.uint64(state))))
        state = (state + 0x9E3779B97F4A7C15) % 2**64
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_validation_takes_the_central_square() -> None:
    windows = order.central_windows(np.array([28, 500]), np.array([28, 375]), 0.875)
    assert windows.tolist() == [[2, 2, 24, 24], [23, 86, 328, 328]]
