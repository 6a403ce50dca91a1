"""RMSprop warm-up: by hand, and torch's RMSprop and SGD at its two ends."""

from math import sqrt

import pytest
import torch
from torch import nn

from pipeline.optim.rmsprop_warmup import RMSpropWarmup
from tests.pipeline.optim.gradients import drive, weights


def warmup(
    parameters: list[nn.Parameter], alpha_sgd: float, alpha_rms: float, *, weight_decay: float = 0.01
) -> RMSpropWarmup:
    optimizer = RMSpropWarmup(parameters, lr=0.1, momentum=0.9, weight_decay=weight_decay, decay=0.75, eps=1e-8)
    optimizer.param_groups[0] |= {"alpha_sgd": alpha_sgd, "alpha_rms": alpha_rms}
    return optimizer


def test_two_steps_are_the_equation_worked_by_hand() -> None:
    # g = 2 twice: s1 = 0.25 * 4 = 1, s2 = 0.75 * 1 + 0.25 * 4 = 1.75; d1 = -(0.25 + 0.5 / 1) * 2 = -1.5
    weight = nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = warmup([weight], 0.25, 0.5, weight_decay=0.0)
    found = []
    for _ in range(2):
        weight.grad = torch.full((1,), 2.0, dtype=torch.float64)
        optimizer.step()
        found.append(weight.item())
    d2 = 0.9 * -1.5 - (0.25 + 0.5 / sqrt(1.75)) * 2
    assert found == pytest.approx([1 - 0.15, 1 - 0.15 + 0.1 * d2], rel=1e-7)


def test_with_none_of_sgd_it_is_torchs_rmsprop_with_momentum() -> None:
    ours, theirs = weights(2)
    other = torch.optim.RMSprop(theirs, lr=0.1, alpha=0.75, eps=1e-8, weight_decay=0.01, momentum=0.9)
    drive((ours, theirs), (warmup(ours, 0.0, 1.0), other), lambda _: None)
    for one, theirs_one in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, theirs_one, rtol=1e-5, atol=1e-6)


def test_with_all_of_it_it_is_torchs_momentum_sgd_over_a_changing_lr() -> None:
    ours, theirs = weights(2)
    optimizers = (warmup(ours, 1.0, 0.0), torch.optim.SGD(theirs, lr=0.1, momentum=0.9, weight_decay=0.01))

    def prepare(step: int) -> None:
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + step)

    drive((ours, theirs), optimizers, prepare)
    for one, theirs_one in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, theirs_one, rtol=1e-6, atol=1e-6)


def test_it_tends_to_momentum_sgd_as_sgds_share_tends_to_one() -> None:
    distances = []
    for share in (0.9, 0.99, 0.999):
        ours, theirs = weights(2)
        optimizers = (warmup(ours, share, 1 - share), torch.optim.SGD(theirs, lr=0.1, momentum=0.9, weight_decay=0.01))
        drive((ours, theirs), optimizers, lambda _: None)
        pairs = zip(ours, theirs, strict=True)
        distances.append(max(float((one - other).detach().abs().max()) for one, other in pairs))
    assert distances[0] > 0.01
    for nearer, farther in zip(distances[1:], distances, strict=False):
        assert nearer == pytest.approx(farther / 10, rel=0.2)
