"""Polynomial decay: LR falls from its peak at the end of the warm-up to 0 at the end of the run.

    factor(e) = (1 - (e - warmup) / (epochs - warmup)) ** power

Power 2 is You et al. 2017 (1708.03888).
"""

from pipeline.config.schema import OptimConfig


def factor(optim: OptimConfig, fractional_epoch: float, epochs: int) -> float:
    """LR as a share of its peak, after the warm-up."""
    assert optim.decay_power is not None, "checked"
    progress = (fractional_epoch - optim.warmup_epochs) / (epochs - optim.warmup_epochs)
    return float((1 - progress) ** optim.decay_power)
