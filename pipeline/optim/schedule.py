"""Learning rate, momentum and the like as functions of the position in the run.

    LR(e) = warmup_lr + (peak - warmup_lr) * e / warmup     for e < warmup
    LR(e) = peak * factor(e)                                after it

e is the fractional epoch at the start of an update. The factor is the schedule's: polynomial.py, step_decay.py,
slow_start.py. Peak and warmup_lr follow the batch where a recipe asks for it, and momentum the stage
(pipeline.config.plan).
"""

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.config.plan import Plan
from pipeline.config.schema import OptimConfig
from pipeline.optim import polynomial, slow_start, step_decay
from pipeline.optim.rmsprop_shares import alpha_rms, alpha_sgd


@dataclass(frozen=True)
class Position:
    """One update of the run, and what the schedule gives it."""

    epoch: int
    """Counted from 0."""
    update_in_epoch: int
    fractional_epoch: float
    lr: float
    momentum: float
    alpha_sgd: float = 1.0
    """Weight of the gradient itself (RMSprop warm-up)."""
    alpha_rms: float = 0.0
    """Weight of the gradient over its root mean square (RMSprop warm-up)."""


FACTORS: dict[str, Callable[[OptimConfig, float, int], float]] = {
    "polynomial": polynomial.factor,
    "step": step_decay.factor,
    "slow_start": slow_start.factor,
}
"""LR as a share of its peak, by optim.schedule: of the optimiser's configuration, the fractional epoch, all epochs."""


def position(optim: OptimConfig, plan: Plan, update: int) -> Position:
    """Where update `update`, counted from 0, stands in the run."""
    epoch, inside = plan.position(update)
    stage = plan.stage_at(epoch)
    fractional = epoch + inside / stage.updates_per_epoch
    lr = learning_rate(optim, plan, fractional)
    if optim.name != "rmsprop_warmup":
        return Position(epoch, inside, fractional, lr, stage.momentum)
    of_sgd = alpha_sgd(optim, fractional)
    of_rms = alpha_rms(optim, of_sgd, plan.peak_lr)
    return Position(epoch, inside, fractional, lr, stage.momentum, of_sgd, of_rms)


def learning_rate(optim: OptimConfig, plan: Plan, fractional_epoch: float) -> float:
    """LR at `fractional_epoch` of a run."""
    if fractional_epoch < optim.warmup_epochs:
        return plan.warmup_lr + (plan.peak_lr - plan.warmup_lr) * fractional_epoch / optim.warmup_epochs
    return plan.peak_lr * FACTORS[optim.schedule](optim, fractional_epoch, plan.epochs)
