"""Step decay: at each milestone LR becomes decay_factor times what it was (He et al. 2015, Goyal et al. 2017).

factor(e) = decay_factor ** (number of milestones at or before e)
"""

from pipeline.config.schema import OptimConfig


def factor(optim: OptimConfig, fractional_epoch: float, epochs: int) -> float:  # noqa: ARG001 - a schedule's signature
    """LR as a share of its peak, after the warm-up."""
    assert optim.decay_factor is not None, "checked"
    passed = sum(milestone <= fractional_epoch for milestone in optim.milestones)
    return float(optim.decay_factor**passed)
