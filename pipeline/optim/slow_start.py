"""Slow start: LR is constant on levels that a recipe lists, the first of them below the peak (Akiba et al. 2017).

The peak itself is never reached there: an LR of half the linear scaling rule's is kept for longer instead.
"""

from pipeline.config.schema import OptimConfig


def factor(optim: OptimConfig, fractional_epoch: float, epochs: int) -> float:  # noqa: ARG001 - a schedule's signature
    """LR as a share of its peak, after the warm-up."""
    return next(level.factor for level in reversed(optim.levels) if level.start_epoch <= fractional_epoch)
