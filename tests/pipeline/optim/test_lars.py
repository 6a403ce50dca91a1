"""LARS against an equation worked by hand over changing LR, and against timm's at constant LR."""

import math
from collections.abc import Sequence

import pytest
import torch
from timm.optim import Lars
from torch import nn

from pipeline.optim.lars import LARS, trust_ratios


def lars(weights: Sequence[torch.Tensor], **changes: float) -> LARS:
    settings = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "coefficient": 0.1, "eps": 1e-6} | changes
    return LARS(list(weights), **settings)


def test_two_steps_over_a_changing_lr_are_the_equation_worked_by_hand() -> None:
    # w = (3, 4), |w| = 5; g = (0, 2), |g| = 2; lambda = 0.1 * 5 / (2 + 0.01 * 5) = 0.5 / 2.05
    # v1 = 0.1 * lambda * (g + 0.01 w) = 0.1 * 0.5 / 2.05 * (0.03, 2.04)
    weight = nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    optimizer = lars([weight])
    weight.grad = torch.tensor([0.0, 2.0], dtype=torch.float64)
    optimizer.step()
    v1 = [0.1 * 0.5 / 2.05 * 0.03, 0.1 * 0.5 / 2.05 * 2.04]
    w1 = [3 - v1[0], 4 - v1[1]]
    assert weight.tolist() == pytest.approx(w1, rel=1e-12)
    # LR falls to 0.01. It is inside the buffer, so the old velocity keeps the old LR: v2 = 0.9 v1 + 0.01 lambda2 (…)
    weight.grad = torch.tensor([1.0, 0.0], dtype=torch.float64)
    optimizer.param_groups[0]["lr"] = 0.01
    optimizer.step()
    norm = math.hypot(*w1)
    trust = 0.1 * norm / (1 + 0.01 * norm)
    v2 = [0.9 * v1[0] + 0.01 * trust * (1 + 0.01 * w1[0]), 0.9 * v1[1] + 0.01 * trust * 0.01 * w1[1]]
    assert weight.tolist() == pytest.approx([w1[0] - v2[0], w1[1] - v2[1]], rel=1e-12)


def test_eps_joins_the_denominator_only_where_that_is_below_eps() -> None:
    weight = torch.tensor([0.5])
    tiny, zero, usual = (torch.tensor([value]) for value in (4e-7, 0.0, 2.0))
    ratios = trust_ratios([weight] * 3, [tiny, zero, usual], coefficient=0.01, weight_decay=0.0, eps=1e-6)
    expected = [0.01 * 0.5 / (4e-7 + 1e-6), 0.01 * 0.5 / 1e-6, 0.01 * 0.5 / 2.0]
    assert ratios.tolist() == pytest.approx(expected, rel=1e-6)


def test_lambda_is_one_where_the_weight_is_below_eps() -> None:
    ratios = trust_ratios([torch.zeros(3)], [torch.ones(3)], coefficient=0.01, weight_decay=1e-4, eps=1e-6)
    assert ratios.tolist() == [1.0]


def test_at_constant_lr_it_is_timms() -> None:
    torch.manual_seed(0)
    ours = [nn.Parameter(torch.randn(5, 7)), nn.Parameter(torch.randn(11))]
    theirs = [nn.Parameter(weight.detach().clone()) for weight in ours]
    optimizers = (
        lars(ours, lr=0.5, weight_decay=1e-4, coefficient=0.01),
        Lars(theirs, lr=0.5, momentum=0.9, weight_decay=1e-4, trust_coeff=0.01, eps=0.0, always_adapt=True),
    )
    for step in range(20):
        for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            gradient = torch.randn(a.shape, generator=torch.Generator().manual_seed(100 * step + index))
            a.grad, b.grad = gradient.clone(), gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_plain_parameters_take_momentum_sgd_without_decay() -> None:
    bias = nn.Parameter(torch.tensor([1.0]))
    optimizer = LARS(
        [{"params": [bias], "adapt": False, "weight_decay": 0.0}],
        lr=0.5, momentum=0.9, weight_decay=0.1, coefficient=0.01, eps=1e-6,
    )  # fmt: skip
    for expected in (1 - 0.5 * 2, 1 - 0.5 * 2 - (0.9 * 0.5 * 2 + 0.5 * 2)):
        bias.grad = torch.tensor([2.0])
        optimizer.step()
        assert bias.item() == pytest.approx(expected)


def test_a_parameter_without_a_gradient_is_left_alone() -> None:
    weight = nn.Parameter(torch.ones(2))
    lars([weight]).step()
    assert weight.tolist() == [1.0, 1.0]
