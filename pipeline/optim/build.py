"""From the configuration to an optimiser over a network's parameters, and from a position to its values."""

from typing import Any

from torch import nn
from torch.optim import Optimizer

from pipeline.config.schema import OptimConfig
from pipeline.optim.lars import LARS
from pipeline.optim.parameter_groups import parameter_groups
from pipeline.optim.rmsprop_warmup import RMSpropWarmup
from pipeline.optim.schedule import Position
from pipeline.optim.sgd import sgd


def build(optim: OptimConfig, model: nn.Module) -> Optimizer:
    """The optimiser that `optim` names, over the parameters of `model`; `place` gives it its LR before an update."""
    groups = parameter_groups(model, optim.no_decay)
    return BUILDERS[optim.name](optim, groups)


def place(optimizer: Optimizer, here: Position) -> None:
    """Give every group what the schedule has for this update."""
    for group in optimizer.param_groups:
        group["lr"], group["momentum"] = here.lr, here.momentum
        if "alpha_sgd" in group:
            group["alpha_sgd"], group["alpha_rms"] = here.alpha_sgd, here.alpha_rms


def _lars(optim: OptimConfig, groups: list[dict[str, Any]]) -> Optimizer:
    assert optim.coefficient is not None, "checked"
    assert optim.eps is not None, "checked"
    return LARS(
        groups,
        lr=0.0,
        momentum=optim.momentum,
        weight_decay=optim.weight_decay,
        coefficient=optim.coefficient,
        eps=optim.eps,
    )


def _sgd(optim: OptimConfig, groups: list[dict[str, Any]]) -> Optimizer:
    return sgd(
        groups,
        momentum=optim.momentum,
        weight_decay=optim.weight_decay,
        nesterov=optim.nesterov,
        momentum_correction=optim.momentum_correction,
    )


def _rmsprop_warmup(optim: OptimConfig, groups: list[dict[str, Any]]) -> Optimizer:
    assert optim.rms_decay is not None, "checked"
    assert optim.rms_eps is not None, "checked"
    return RMSpropWarmup(
        groups,
        lr=0.0,
        momentum=optim.momentum,
        weight_decay=optim.weight_decay,
        decay=optim.rms_decay,
        eps=optim.rms_eps,
    )


BUILDERS = {"lars": _lars, "sgd": _sgd, "rmsprop_warmup": _rmsprop_warmup}
"""By optim.name."""
