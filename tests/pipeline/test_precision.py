"""Mixed precision: fp16 and bf16 compute on tiny tensors, overflow is skipped and the scale halves."""

import pytest
import torch
from torch import nn

from pipeline.config.schema import PrecisionConfig
from pipeline.precision import autocast, loss_scaler


@pytest.mark.parametrize(
    ("compute", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16), ("fp32", torch.float32)]
)
def test_the_forward_pass_computes_in_its_type(compute: str, dtype: torch.dtype) -> None:
    with autocast(PrecisionConfig(compute=compute, loss_scale=None), "cpu"):
        assert nn.Linear(4, 2)(torch.ones(3, 4)).dtype == dtype


def test_an_overflow_skips_the_update_and_halves_the_scale() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = loss_scaler(PrecisionConfig(loss_scale=1024.0), "cpu")
    scaler.scale((weight * torch.tensor([1.0, torch.inf])).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1.0, 1.0]
    assert scaler.get_scale() == 512.0


def test_the_scale_doubles_after_the_interval() -> None:
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler = loss_scaler(PrecisionConfig(loss_scale=1024.0, loss_scale_growth_interval=3), "cpu")
    for _ in range(3):
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 2048.0


def test_without_a_scale_the_loss_is_left_alone() -> None:
    scaler = loss_scaler(PrecisionConfig(loss_scale=None), "cpu")
    assert scaler.scale(torch.tensor(3.0)).item() == 3.0
