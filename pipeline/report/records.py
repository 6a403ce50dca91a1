"""What a run left, as the report takes it: state, configuration, outcome; only what is whole and finite. Torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.config import Config, Plan, make_plan
from pipeline.config.differences import differences
from pipeline.errors import UserError

SCALING = "scaling"
"""The experiment of `make scaling`: a measurement, and no paper's recipe."""


@dataclass(frozen=True)
class Outcome:
    """What the report reads of a result.json."""

    complete: bool
    updates: int
    updates_by_stage: tuple[int, ...]
    top1: float | None
    """Percent; None: nothing was validated."""
    validation_images: int
    loop_time_s: float
    """From before the first update to after the last, validations included."""
    images_per_s: float


@dataclass(frozen=True)
class Record:
    """A run whose configuration can be read."""

    folder: str
    """Its path, as a person would write it."""
    state: str
    """One word of `make status`: running, done, failed, …"""
    why: str
    """One line: why it failed or waits; empty where there is nothing to say."""
    config: Config
    plan: Plan
    outcome: Outcome | None
    """None: there is no result, or none that can be read."""
    changed: Mapping[str, tuple[object, object]] | None = field(default_factory=dict)
    """Keys of the recipe whose values are other ones than those of conf/exp/: (here, there). None: there is no such
    recipe."""

    @property
    def is_scale_model(self) -> bool:
        return self.config.scale is not None


OF_A_SCALE_MODEL = ("recipe.", "optim.")
"""Keys that a scale model has as its recipe has them."""

OF_FULL_SIZE = (
    *OF_A_SCALE_MODEL, "model.", "precision.", "allreduce.name", "allreduce.wire", "data.classes", "data.image_size",
    "data.window.", "data.mirror", "data.validation_crop", "data.mean", "data.std", "data.synthetic",
    "data.train_samples",
)  # fmt: skip
"""And those that the paper's own run is compared by."""

NAMES = ("recipe.system",)
"""Keys that change no run."""


def changed(config: Config, recipe: Config) -> dict[str, tuple[object, object]]:
    """Keys of the recipe whose values are other ones in a run: (in the run, in the recipe)."""
    compared = OF_FULL_SIZE if config.scale is None else OF_A_SCALE_MODEL
    found = differences(config, recipe)
    kept = {key: pair for key, pair in found.items() if key.startswith(compared) and key not in NAMES}
    if config.scale is None and config.recipe.workers == recipe.recipe.workers:
        ours, theirs = make_plan(config).grid, make_plan(recipe).grid
        if ours.workers == theirs.workers and ours != theirs:
            kept["grid"] = (str(ours), str(theirs))
    return kept


MOST = 1e15
"""Of anything that a run counts, in images, seconds or images a second: sums of such numbers stay finite."""


def outcome_of(result: Mapping[str, Any], experiment: str) -> Outcome:
    """What a result.json says. Raises UserError for a key that is absent, no number, or beyond what a run can count,
    and for the result of another experiment."""
    if result.get("experiment", experiment) != experiment:
        raise UserError(f"result.json: it is of {result.get('experiment')!r:.40}, config.yaml of {experiment}")
    by_stage = result.get("updates_by_stage")
    if not isinstance(by_stage, list) or not all(_is_count(one) for one in by_stage):
        raise UserError(f"result.json: updates_by_stage is {by_stage!r:.40}, not numbers of updates")
    if not isinstance(result.get("complete"), bool):
        raise UserError(f"result.json: complete is {result.get('complete')!r:.40}, neither true nor false")
    top1 = None if result.get("top1") is None else _number(result, "top1")
    if top1 is not None and top1 > 100:
        raise UserError(f"result.json: top1 is {top1:g} %")
    return Outcome(
        complete=result["complete"],
        updates=int(_number(result, "updates")),
        updates_by_stage=tuple(by_stage),
        top1=top1,
        validation_images=int(_number(result, "validation_images")),
        loop_time_s=_number(result, "loop_time_s", positive=True),
        images_per_s=_number(result, "images_per_s"),
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(result: Mapping[str, Any], key: str, *, positive: bool = False) -> float:
    value = result.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise UserError(f"result.json: {key} is {value!r:.40}, not a number of 0 to {MOST:g}")
    if positive and value == 0:
        raise UserError(f"result.json: {key} is 0, which no run has")
    return float(value)
