"""Momentum SGD in both forms: by hand where LR changes, against torch's where it does not."""

import pytest
import torch
from torch import nn

from pipeline.optim.sgd import CaffeSGD, sgd
from tests.pipeline.optim.gradients import drive, weights


def after_two_steps(*, nesterov: bool, momentum_correction: bool) -> list[float]:
    """A weight of 1 after gradients of 2 at LR 0.1 and of 3 at LR 0.01, with momentum 0.9."""
    weight = nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = sgd(
        [weight], momentum=0.9, weight_decay=0.0, nesterov=nesterov, momentum_correction=momentum_correction
    )
    found = []
    for lr, gradient in ((0.1, 2.0), (0.01, 3.0)):
        optimizer.param_groups[0]["lr"] = lr
        weight.grad = torch.full((1,), gradient, dtype=torch.float64)
        optimizer.step()
        found.append(weight.item())
    return found


def test_momentum_is_corrected_where_lr_changes() -> None:
    # (10) of Goyal et al. with their correction: v1 = 0.1 * 2 = 0.2; v2 = 0.9 * (0.01 / 0.1) * v1 + 0.01 * 3 = 0.048
    assert after_two_steps(nesterov=False, momentum_correction=True) == pytest.approx([0.8, 0.8 - 0.048], rel=1e-12)


def test_without_correction_old_velocity_keeps_the_old_lr() -> None:
    # v1 = 0.1 * 2 = 0.2; v2 = 0.9 * v1 + 0.01 * 3 = 0.21
    assert after_two_steps(nesterov=False, momentum_correction=False) == pytest.approx([0.8, 0.8 - 0.21], rel=1e-12)


def test_nesterovs_momentum_is_corrected_where_lr_changes() -> None:
    # Corrected velocities as above, 0.2 and 0.048; a step is lr * g + 0.9 * v: 0.2 + 0.18, then 0.03 + 0.0432
    found = after_two_steps(nesterov=True, momentum_correction=True)
    assert found == pytest.approx([0.62, 0.62 - 0.0732], rel=1e-12)


def test_nesterovs_momentum_without_correction_looks_ahead_along_the_old_velocity() -> None:
    # Velocities 0.2 and 0.21; a step is lr * g + 0.9 * v: 0.38, then 0.03 + 0.189
    found = after_two_steps(nesterov=True, momentum_correction=False)
    assert found == pytest.approx([0.62, 0.62 - 0.219], rel=1e-12)


@pytest.mark.parametrize("nesterov", [False, True])
def test_at_constant_lr_both_forms_are_torchs(nesterov: bool) -> None:
    ours, theirs = weights(2)
    optimizers = (
        CaffeSGD(ours, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=nesterov),
        torch.optim.SGD(theirs, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=nesterov),
    )
    drive((ours, theirs), optimizers, lambda _: None)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_an_lr_of_zero_at_the_start_of_a_warm_up_moves_nothing_and_spoils_nothing() -> None:
    for momentum_correction in (True, False):
        weight = nn.Parameter(torch.ones(1))
        optimizer = sgd(
            [weight], momentum=0.9, weight_decay=0.0, nesterov=True, momentum_correction=momentum_correction
        )
        weight.grad = torch.ones(1)
        optimizer.step()
        assert weight.item() == 1.0
        optimizer.param_groups[0]["lr"] = 0.1
        optimizer.step()
        assert 0 < weight.item() < 1
