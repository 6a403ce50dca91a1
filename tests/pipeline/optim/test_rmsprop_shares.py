"""The shares of RMSprop warm-up at epochs worked by hand: centre 10, period 5, and eta = 0.1 * 32,768 / 256 = 12.8."""

from math import exp

import pytest

from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.optim.rmsprop_shares import alpha_rms, alpha_sgd
from pipeline.optim.schedule import position


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(0, exp(-4) / 2), (5, exp(-2) / 2), (9.9999999, 0.5), (10, 0.5), (11, 0.9), (11.25, 1), (12.5, 1), (89, 1)],
)
def test_sgds_share_rises_from_near_zero_to_one(epoch: float, expected: float) -> None:
    assert alpha_sgd(compose(["exp=akiba"]).optim, epoch) == pytest.approx(expected, rel=1e-6)


def test_it_never_passes_one_where_the_line_would() -> None:
    optim = compose(["exp=akiba"]).optim
    assert max(alpha_sgd(optim, 10 + step / 100) for step in range(300)) == 1.0


def test_with_a_slope_of_one_it_reaches_one_at_the_end_of_the_period() -> None:
    optim = compose(["exp=akiba", "optim.rms_slope=1"]).optim
    assert [alpha_sgd(optim, epoch) for epoch in (11, 12, 12.5)] == pytest.approx([0.7, 0.9, 1.0])


def test_rmsprops_share_is_what_is_left_times_its_lr_over_the_peak() -> None:
    optim = compose(["exp=akiba"]).optim
    assert alpha_rms(optim, 0.25, 12.8) == pytest.approx(0.75 * 3e-4 / 12.8)
    assert alpha_rms(optim, 1.0, 12.8) == 0.0


def test_positions_have_the_shares_of_their_epoch() -> None:
    config = compose(["exp=akiba", "scale=null", "workers=16"])
    plan = make_plan(config)
    first, center, later = (position(config.optim, plan, 40 * epoch) for epoch in (0, 10, 13))
    assert first.alpha_sgd == pytest.approx(exp(-4) / 2)
    assert first.alpha_rms == pytest.approx((1 - exp(-4) / 2) * 3e-4 / 12.8)
    assert [center.alpha_sgd, center.alpha_rms] == pytest.approx([0.5, 0.5 * 3e-4 / 12.8])
    assert (later.alpha_sgd, later.alpha_rms) == (1.0, 0.0)
    assert [first.momentum, first.lr] == pytest.approx([0.9, 6.4])
