"""The plan of a run: everything that follows from the configuration by arithmetic, worked out once.

The header, the trainer, the checks and the tests read the same `Plan`; nothing else computes a batch, a number of
updates or a momentum.
Torch-free; pure functions.
"""

from dataclasses import dataclass
from math import ceil

from pipeline.config.scale import (
    divisors,
    is_to_scale,
    scaled_batch,
    scaled_samples,
    scaled_workers,
    split,
    squarest_grid,
)
from pipeline.config.schema import Config, OptimConfig, RecipeConfig, RunConfig
from pipeline.errors import UserError


@dataclass(frozen=True)
class Grid:
    """The torus of the real workers."""

    vertical: int
    horizontal: int

    @property
    def workers(self) -> int:
        return self.vertical * self.horizontal

    def __str__(self) -> str:
        return f"{self.vertical}x{self.horizontal}"


@dataclass(frozen=True)
class Stage:
    """A span of epochs with one batch, as this run lives it."""

    start_epoch: int
    end_epoch: int
    per_worker_batch: int
    """Images in one micro-batch of a real worker: what batch-norm sees."""
    micro_batches: int
    """Micro-batches a real worker takes in one update."""
    total_batch: int
    """Images in one update, over all workers."""
    recipe_batch: int
    """Images in one update of the paper's run; momentum depends on it."""
    updates_per_epoch: int
    momentum: float

    @property
    def updates(self) -> int:
        return self.updates_per_epoch * (self.end_epoch - self.start_epoch)


@dataclass(frozen=True)
class Plan:
    """The whole run."""

    virtual_workers: int
    workers: int
    grid: Grid
    samples: int
    """Training samples an epoch."""
    epochs: int
    stages: tuple[Stage, ...]
    peak_lr: float
    """Where the warm-up ends."""
    warmup_lr: float
    """Where it begins."""

    @property
    def updates(self) -> int:
        return sum(stage.updates for stage in self.stages)

    def stage_at(self, epoch: int) -> Stage:
        """The stage that epoch `epoch`, counted from 0, belongs to."""
        return next(stage for stage in reversed(self.stages) if stage.start_epoch <= epoch)

    def first_update(self, epoch: int) -> int:
        """Updates before the start of epoch `epoch`."""
        spans = ((min(epoch, s.end_epoch) - s.start_epoch) * s.updates_per_epoch for s in self.stages)
        return sum(max(0, span) for span in spans)

    def position(self, update: int) -> tuple[int, int]:
        """(epoch, update in that epoch) of update `update`, all counted from 0."""
        for stage in self.stages:
            if update < stage.updates:
                epoch, inside = divmod(update, stage.updates_per_epoch)
                return stage.start_epoch + epoch, inside
            update -= stage.updates
        return self.epochs, update

    def epochs_between(self, first_update: int, last_update: int) -> range:
        """The epochs of the updates from `first_update` on and before `last_update`."""
        if first_update >= last_update:
            return range(0)
        return range(self.position(first_update)[0], self.position(last_update - 1)[0] + 1)

    def last_update(self, run: RunConfig) -> int:
        """The update that an attempt ends with: the run's last, or what run.stop_after_* asks for."""
        ends = [self.updates]
        if run.stop_after_epochs is not None:
            ends.append(self.first_update(min(run.stop_after_epochs, self.epochs)))
        if run.stop_after_updates is not None:
            ends.append(run.stop_after_updates)
        return min(ends)

    def images(self, update: int) -> int:
        """Training images that `update` updates take, over all workers."""
        done = self.updates_by_stage(update)
        return sum(updates * stage.total_batch for stage, updates in zip(self.stages, done, strict=True))

    def updates_by_stage(self, update: int | None = None) -> list[int]:
        """Updates of each stage in a run that has done `update` of them (null: the whole run)."""
        left = self.updates if update is None else update
        done = []
        for stage in self.stages:
            done.append(min(left, stage.updates))
            left -= done[-1]
        return done


def momentum(optim: OptimConfig, recipe_batch: int) -> float:
    """Momentum at `recipe_batch` images an update.

    m(B) = 1 - (1 - m0) * B0 / B keeps the noise scale LR*N/(B*(1-m)) of Smith et al. 2017 (1711.00489) when the batch
    grows and LR does not.
    """
    reference = optim.momentum_reference_batch
    return optim.momentum if reference is None else 1 - (1 - optim.momentum) * reference / recipe_batch


def learning_rates(optim: OptimConfig, first: Stage) -> tuple[float, float]:
    """(peak, LR at the start of the warm-up); first: the run's first stage.

    The peak is LR * B / reference, the linear scaling rule of Goyal et al. 2017 (1706.02677) on the images B that an
    update of this run takes, be it a scale model: what one image moves the weights stays the paper's. The start of the
    warm-up shrinks alike. Later stages raise the batch and not LR (Smith et al. 2017). Without a reference batch, as in
    LARS, which sets the size of a step by that of the weights, both are the paper's at any scale.
    """
    if optim.lr_reference_batch is None:
        return optim.lr, optim.warmup_lr
    peak = optim.lr * first.total_batch / optim.lr_reference_batch
    return peak, optim.warmup_lr * first.total_batch / first.recipe_batch


def to_scale(config: Config) -> bool:
    """Whether a run's batches are the paper's, or in the scale model its share of them."""
    recipe = config.recipe
    batches = [stage.per_worker_batch for stage in recipe.stages]
    return is_to_scale(batches, recipe.workers, config.scale, recipe.smallest_scale_batch)


def make_plan(config: Config) -> Plan:
    """Work out the plan; raises UserError where the configuration contradicts itself."""
    recipe = config.recipe
    virtual = scaled_workers(recipe.workers, config.scale)
    batches = _batches(recipe, config.scale)
    real = _real_workers(config, virtual)
    micro_batches, shrink = split(virtual, real, batches, workers_per_node=config.site.workers_per_node)
    samples = config.data.train_samples or scaled_samples(recipe.images, recipe.workers, config.scale)
    ends = [stage.start_epoch for stage in recipe.stages[1:]] + [recipe.epochs]
    stages = tuple(
        Stage(
            start_epoch=stage.start_epoch,
            end_epoch=end,
            per_worker_batch=batch // shrink,
            micro_batches=micro_batches,
            total_batch=batch * virtual,
            recipe_batch=stage.per_worker_batch * recipe.workers,
            updates_per_epoch=ceil(samples / (batch * virtual)),
            momentum=momentum(config.optim, stage.per_worker_batch * recipe.workers),
        )
        for stage, batch, end in zip(recipe.stages, batches, ends, strict=True)
    )
    rates = learning_rates(config.optim, stages[0])
    return Plan(virtual, real, _grid(config, real), samples, recipe.epochs, stages, *rates)


def _batches(recipe: RecipeConfig, scale: int | None) -> list[int]:
    """Images that a virtual worker takes in an update, by stage."""
    return [
        scaled_batch(stage.per_worker_batch, recipe.workers, scale, recipe.smallest_scale_batch)
        for stage in recipe.stages
    ]


def _real_workers(config: Config, virtual: int) -> int:
    """Real workers that `workers`, `nodes` or the grid ask for."""
    asked = {}
    if config.nodes is not None:
        per_node = config.site.workers_per_node
        if per_node is None:
            raise UserError(f"nodes={config.nodes}: site {config.site.name} is one machine; give workers= instead")
        asked[f"nodes={config.nodes}"] = config.nodes * per_node
    if config.workers is not None:
        asked[f"workers={config.workers}"] = config.workers
    vertical, horizontal = config.grid.vertical, config.grid.horizontal
    if vertical is not None and horizontal is not None:
        asked[f"grid {vertical}x{horizontal}"] = vertical * horizontal
    if len(set(asked.values())) > 1:
        found = ", ".join(f"{what} asks for {count}" for what, count in asked.items())
        raise UserError(f"the number of workers is contradictory: {found}; give one of them, or make them agree")
    return next(iter(asked.values()), virtual)


def _grid(config: Config, real: int) -> Grid:
    """The real workers' grid: as asked for, the recipe's where there are as many, else the nearest to a square."""
    vertical, horizontal = config.grid.vertical, config.grid.horizontal
    if vertical is None and horizontal is None:
        recipe = config.recipe
        if real == recipe.workers:
            return Grid(recipe.grid.vertical, recipe.grid.horizontal)
        return Grid(*squarest_grid(real))
    side = vertical or horizontal or 1
    if real % side:
        sides = ", ".join(map(str, divisors(real)))
        name = "vertical" if horizontal is None else "horizontal"
        raise UserError(f"grid.{name}={side} does not divide {real} workers; these do: {sides}")
    return Grid(vertical or real // side, horizontal or real // side)
