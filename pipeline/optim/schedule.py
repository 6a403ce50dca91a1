"""Learning rate and momentum as functions of the position in the run.

    LR(e) = peak * e / warmup                                          for e < warmup
    LR(e) = peak * (1 - (e - warmup) / (epochs - warmup)) ** power     after it

e is the fractional epoch at the start of an update, so the first update of a run has LR 0. Polynomial decay of power 2
is You et al. 2017 (1708.03888). LR is not raised when the batch is; momentum follows the stage (pipeline.config.plan).
"""

from dataclasses import dataclass

from pipeline.config.plan import Plan
from pipeline.config.schema import OptimConfig


@dataclass(frozen=True)
class Position:
    """One update of the run, and what the schedule gives it."""

    epoch: int
    """Counted from 0."""
    update_in_epoch: int
    fractional_epoch: float
    lr: float
    momentum: float


def learning_rate(optim: OptimConfig, fractional_epoch: float, epochs: int) -> float:
    """LR at `fractional_epoch` of a run of `epochs`."""
    if fractional_epoch < optim.warmup_epochs:
        return optim.lr * fractional_epoch / optim.warmup_epochs
    progress = (fractional_epoch - optim.warmup_epochs) / (epochs - optim.warmup_epochs)
    return float(optim.lr * (1 - progress) ** optim.decay_power)


def position(optim: OptimConfig, plan: Plan, update: int) -> Position:
    """Where update `update`, counted from 0, stands in the run."""
    epoch, inside = plan.position(update)
    stage = plan.stage_at(epoch)
    fractional = epoch + inside / stage.updates_per_epoch
    return Position(epoch, inside, fractional, learning_rate(optim, fractional, plan.epochs), stage.momentum)
