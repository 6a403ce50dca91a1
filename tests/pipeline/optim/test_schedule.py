"""LR and momentum at chosen points, worked by hand: 3.1 e/5, then 3.1 (1 - (e-5)/85)**2."""

import pytest

from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.config.optim_checks import SCHEDULES
from pipeline.optim.schedule import FACTORS, learning_rate, position


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(0, 0.0), (1, 0.62), (2.5, 1.55), (5, 3.1), (47.5, 0.775), (73, 3.1 * 0.2**2), (90, 0.0)],
)
def test_lr_warms_up_linearly_and_falls_with_the_square(epoch: float, expected: float) -> None:
    config = compose(["exp=exp5"])
    assert learning_rate(config.optim, make_plan(config), epoch) == pytest.approx(expected, abs=1e-12)


def test_lr_is_a_function_of_the_fractional_epoch_whatever_the_stage() -> None:
    config = compose(["exp=exp5"])
    plan = make_plan(config)
    before, after = (position(config.optim, plan, update) for update in (1109, 1110))
    assert before.fractional_epoch == pytest.approx(29 + 36 / 37)
    assert after.fractional_epoch == 30
    assert after.lr == pytest.approx(3.1 * (1 - 25 / 85) ** 2)
    assert 0 < before.lr - after.lr < 3.1 * 2 / 85 / 37  # no jump at the switch: LR is not raised with the batch


def test_momentum_switches_with_the_batch() -> None:
    config = compose(["exp=exp5"])
    plan = make_plan(config)
    momenta = [round(position(config.optim, plan, update).momentum, 3) for update in (0, 1109, 1110, 1679, 1680, 2009)]
    assert momenta == [0.9, 0.9, 0.95, 0.95, 0.971, 0.971]


def test_the_schedule_does_not_depend_on_real_workers_or_scale() -> None:
    configs = [compose(["exp=exp5", *words]) for words in ([], ["workers=1"], ["scale=null"], ["workers=8"])]
    schedules = [
        [position(config.optim, make_plan(config), update) for update in range(0, 2010, 97)] for config in configs
    ]
    assert all(schedule == schedules[0] for schedule in schedules)


def test_without_a_reference_batch_momentum_is_constant() -> None:
    plan = make_plan(compose(["exp=exp5", "optim.momentum_reference_batch=null"]))
    assert [stage.momentum for stage in plan.stages] == [0.9, 0.9, 0.9]


def test_there_are_as_many_names_as_schedules() -> None:
    assert set(FACTORS) == set(SCHEDULES)


def test_a_warm_up_may_begin_above_zero() -> None:
    words = ["exp=exp5", "optim.warmup_lr=0.5"]
    config = compose(words)
    plan = make_plan(config)
    rates = [learning_rate(config.optim, plan, epoch) for epoch in (0, 2.5, 5)]
    assert rates == pytest.approx([0.5, 0.5 + 2.6 / 2, 3.1])


def test_without_a_warm_up_the_first_update_has_the_peak() -> None:
    config = compose(["exp=he", "scale=null"])
    assert position(config.optim, make_plan(config), 0).lr == 0.1
