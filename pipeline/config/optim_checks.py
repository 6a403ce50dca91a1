"""The checks of an optimiser and its schedule: what each needs, and what contradicts itself. Torch-free."""

from pipeline.config.choices import one_of
from pipeline.config.schema import OptimConfig
from pipeline.errors import UserError

OPTIMISERS = ("lars", "sgd", "rmsprop_warmup")
SCHEDULES = ("polynomial", "step", "slow_start")
UNDECAYED = ("batch_norm", "bias")

OWN = {
    "optim.name=lars": ("coefficient", "eps"),
    "optim.name=rmsprop_warmup": (
        "rms_lr", "rms_decay", "rms_eps", "rms_center_epoch", "rms_period_epochs", "rms_slope",
    ),
    "optim.schedule=polynomial": ("decay_power",),
    "optim.schedule=step": ("decay_factor",),
}  # fmt: skip
"""Numbers that a choice needs; all are above 0."""


def check_optim(optim: OptimConfig, epochs: int) -> None:
    """Raise UserError for the first thing that cannot be run for `epochs` epochs."""
    one_of("optim.name", optim.name, OPTIMISERS)
    one_of("optim.schedule", optim.schedule, SCHEDULES)
    for kind in optim.no_decay:
        one_of("optim.no_decay", kind, UNDECAYED)
    _check_own(optim)
    _check_momentum(optim)
    if optim.warmup_epochs >= epochs:
        raise UserError(
            f"optim.warmup_epochs={optim.warmup_epochs:g}: the run has {epochs} epochs, "
            "so the warm-up must be shorter than that"
        )
    if optim.schedule == "step":
        _check_milestones(optim, epochs)
    if optim.schedule == "slow_start":
        _check_levels(optim, epochs)


def _check_own(optim: OptimConfig) -> None:
    """What the chosen optimiser and schedule need is there; what is there is above 0, chosen or not."""
    for choice, names in OWN.items():
        chosen = choice in (f"optim.name={optim.name}", f"optim.schedule={optim.schedule}")
        for name in names:
            found = getattr(optim, name)
            if found is None and chosen:
                raise UserError(f"{choice} needs optim.{name}, which has no value")
            if found is not None and not found > 0:
                raise UserError(f"optim.{name}={found}: must be above 0")
    for name in ("rms_decay", "decay_factor"):
        found = getattr(optim, name)
        if found is not None and not found < 1:
            raise UserError(f"optim.{name}={found}: must be below 1")


def _check_momentum(optim: OptimConfig) -> None:
    if not 0 <= optim.momentum < 1:
        raise UserError(f"optim.momentum={optim.momentum:g}: must be from 0 to below 1")
    if optim.nesterov and optim.name != "sgd":
        raise UserError(f"optim.nesterov=true belongs to optim.name=sgd; {optim.name} has its own momentum")
    if optim.nesterov and optim.momentum == 0:
        raise UserError("optim.nesterov=true needs an optim.momentum above 0; there is nothing to look ahead along")


def _check_milestones(optim: OptimConfig, epochs: int) -> None:
    found = optim.milestones
    if not found or found != sorted(set(found)) or found[0] < optim.warmup_epochs or found[-1] >= epochs:
        raise UserError(
            f"optim.milestones={_listed(found)}: epochs at which LR falls, rising, after the warm-up "
            f"({optim.warmup_epochs:g}) and before the end of the run ({epochs})"
        )


def _check_levels(optim: OptimConfig, epochs: int) -> None:
    starts = [level.start_epoch for level in optim.levels]
    if not starts or starts[0] != 0 or starts != sorted(set(starts)) or starts[-1] >= epochs:
        raise UserError(
            f"optim.levels start at epochs {_listed(starts)}: the first starts at 0, each later one after the one "
            f"before it, the last before the end of the run ({epochs})"
        )
    for level in optim.levels:
        if not level.factor > 0:
            raise UserError(f"optim.levels: factor={level.factor}: a share of the peak LR, above 0")


def _listed(numbers: list[float]) -> str:
    return f"[{','.join(f'{number:g}' for number in numbers)}]"
