"""How much of an update is momentum SGD and how much RMSprop, by epoch: the warm-up of Akiba et al. 2017 (1711.04325).

With x = (e - center) / period

    alpha_SGD = exp(2 x) / 2            for x < 0
              = 1/2 + slope * x         for x < 1/2, at most 1
              = 1                       after that
    alpha_RMS = (1 - alpha_SGD) * lr_RMS / peak LR

so that RMSprop's step is lr_RMS whatever the batch. The slope as it was read, 2, would pass 1 at x = 1/4 and make
alpha_RMS negative, so alpha_SGD stops at 1. With 1 it would be the exponential linear unit's form, without a bend at
the centre; a recipe's rms_slope says which.
"""

from math import exp

from pipeline.config.schema import OptimConfig


def alpha_sgd(optim: OptimConfig, fractional_epoch: float) -> float:
    """Weight of the gradient itself, above 0 and at most 1."""
    assert optim.rms_center_epoch is not None, "checked"
    assert optim.rms_period_epochs is not None, "checked"
    assert optim.rms_slope is not None, "checked"
    x = (fractional_epoch - optim.rms_center_epoch) / optim.rms_period_epochs
    if x < 0:
        return exp(2 * x) / 2
    return min(1.0, 0.5 + optim.rms_slope * x) if x < 0.5 else 1.0


def alpha_rms(optim: OptimConfig, of_sgd: float, peak_lr: float) -> float:
    """Weight of the gradient over its root mean square. of_sgd: `alpha_sgd`."""
    assert optim.rms_lr is not None, "checked"
    return (1 - of_sgd) * optim.rms_lr / peak_lr
