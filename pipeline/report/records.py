"""What a run left, as the report takes it: state, configuration, outcome; only what is whole and finite. Torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.config import Config, Plan
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

    @property
    def follows_its_recipe(self) -> bool:
        """Whether it may stand in the paper's tables: all updates of an experiment of conf/exp/, as that has them."""
        return self.outcome is not None and self.outcome.complete and self.changed == {}


OF_A_SCALE_MODEL = ("recipe.", "optim.")
"""Keys that a scale model has as its recipe has them."""

OF_FULL_SIZE = (
    *OF_A_SCALE_MODEL, "model.", "precision.compute", "data.classes", "data.image_size", "data.window.", "data.mirror",
    "data.validation_crop", "data.mean", "data.std", "data.synthetic", "data.train_samples",
)  # fmt: skip
"""And those that the paper's own run is compared by."""

NAMES = ("recipe.system",)
"""Keys that change no run."""


def changed(config: Config, recipe: Config) -> dict[str, tuple[object, object]]:
    """Keys of the recipe whose values are other ones in a run: (in the run, in the recipe)."""
    compared = OF_FULL_SIZE if config.scale is None else OF_A_SCALE_MODEL
    found = differences(config, recipe)
    return {key: pair for key, pair in found.items() if key.startswith(compared) and key not in NAMES}


MOST = 1e15
"""Of anything that a run counts, in images, seconds or images a second: sums of such numbers stay finite."""


def outcome_of(result: Mapping[str, Any]) -> Outcome:
    """What a result.json says. Raises UserError for a key that is absent, no number, or beyond what a run can count."""
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
        loop_time_s=_number(result, "loop_time_s"),
        images_per_s=_number(result, "images_per_s"),
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(result: Mapping[str, Any], key: str) -> float:
    value = result.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise UserError(f"result.json: {key} is {value!r:.40}, not a number of 0 to {MOST:g}")
    return float(value)
