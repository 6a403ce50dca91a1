"""LR and momentum at chosen points, worked by hand: 3.1 e/5, then 3.1 (1 - (e-5)/85)**2."""

import pytest

from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.optim.schedule import learning_rate, position


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(0, 0.0), (1, 0.62), (2.5, 1.55), (5, 3.1), (47.5, 0.775), (73, 3.1 * 0.2**2), (90, 0.0)],
)
def test_lr_warms_up_linearly_and_falls_with_the_square(epoch: float, expected: float) -> None:
    assert learning_rate(compose(["exp=exp5"]).optim, epoch, 90) == pytest.approx(expected, abs=1e-12)


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
