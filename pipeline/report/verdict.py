"""What a run says of the paper's: reproduced, a scale model, fewer workers, or nothing, and why. Pure; torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.config import Config
from pipeline.config.plan import to_scale
from pipeline.published import Published, PublishedRun
from pipeline.report.marks import REBUILT
from pipeline.report.records import SCALING, Outcome, Record

TOP1_POINTS = 0.3
"""Most that top-1 may lie below or above the published figure, percentage points. Ours."""
TIME_RATIO = 1.05
"""Most that the time may be of the published one. Ours."""
VALIDATION_IMAGES = 50_000
"""What top-1 is published of: the validation set of ILSVRC2012."""
SHOWN = 2
"""Changed keys that are named where there are more."""
MOST = 60
"""Characters of a value that is shown."""

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
SCALE_MODEL = "scale model"
FEWER_WORKERS = "fewer workers than the paper (same updates)"
NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Verdict:
    """On one run."""

    word: str
    reason: str


def verdict(record: Record, published: Published) -> Verdict:
    """Judge a run. Where it could not be compared, the reason is the first thing that stands against it."""
    outcome, config, plan = record.outcome, record.config, record.plan
    if reason := against(record):
        return Verdict(NOT_COMPARABLE, reason)
    assert outcome is not None
    if record.is_scale_model:
        return Verdict(SCALE_MODEL, _scale(config))
    run = published.run(config.experiment)
    if plan.workers < config.recipe.workers:
        reason = f"{plan.workers:,} of {config.recipe.workers:,}, {outcome.updates:,} updates"
        if run and run.top1 is not None and outcome.top1 is not None:
            reason += f"; top-1 {_points(outcome.top1 - run.top1)} the paper's {run.top1:.2f} %"
        return Verdict(FEWER_WORKERS, reason)
    found = _compared(outcome, run, plan.workers)
    if published.mark(config.experiment, "table1") == REBUILT:
        return Verdict(found.word, f"{found.reason}; that the figures are of {config.experiment} is rebuilt")
    return found


def _scale(config: Config) -> str:
    """What one worker of a scale model stands for."""
    gpus = min(config.scale or 1, config.recipe.workers)
    note = "" if to_scale(config) else ", not to scale"
    return f"one worker stands for {gpus} GPUs{note}, on {config.data.name}"


def against(record: Record) -> str:
    """Why a run cannot be compared with any paper's, nor stand in a table; empty where nothing stands against it."""
    outcome, config, plan = record.outcome, record.config, record.plan
    if config.experiment == SCALING:
        return "a measurement of speed: tables 2 and 6"
    if record.changed is None:
        return f"conf/exp/ has no recipe {config.experiment}"
    if outcome is None:
        return ": ".join(filter(None, [f"no result, {record.state}", record.why]))
    if not outcome.complete:
        return f"stopped after {outcome.updates:,} of {plan.updates:,} updates"
    if outcome.updates != plan.updates:
        return f"its result is of {outcome.updates:,} updates, its recipe of {plan.updates:,}"
    if record.changed:
        return _changes(record.changed)
    if not record.is_scale_model and outcome.top1 is not None and outcome.validation_images != VALIDATION_IMAGES:
        return f"validated on {outcome.validation_images:,} images, the papers on {VALIDATION_IMAGES:,}"
    if not record.is_scale_model and plan.workers > config.recipe.workers:
        return f"{plan.workers:,} workers, the recipe has {config.recipe.workers:,}"
    return ""


def _changes(changed: Mapping[str, tuple[object, object]]) -> str:
    first = [_first_difference(key, *pair) for key, pair in list(changed.items())[:SHOWN]]
    named = [f"{key} is {here!s:.{MOST}} here and {there!s:.{MOST}} in conf/" for key, here, there in first]
    more = len(changed) - len(named)
    return "; ".join([*named, *([f"{more} more keys differ"] if more else [])])


def _first_difference(key: str, here: object, there: object) -> tuple[str, object, object]:
    """The first part of two values that differs, with its key, as `recipe.stages[2].start_epoch`; or their lengths."""
    if isinstance(here, dict) and isinstance(there, dict):
        parts = [(f"{key}.{name}", here.get(name), there.get(name)) for name in {**here, **there}]
    elif isinstance(here, list) and isinstance(there, list):
        pairs = zip(here, there, strict=False)
        parts = [(f"{key}[{place}]", *pair) for place, pair in enumerate(pairs)]
        parts.append((f"the length of {key}", len(here), len(there)))
    else:
        return key, here, there
    return next((_first_difference(*part) for part in parts if part[1] != part[2]), (key, here, there))


def _compared(outcome: Outcome, run: PublishedRun | None, workers: int) -> Verdict:
    """The verdict of a whole run of the recipe's size, against the published pair of time and accuracy."""
    if run is None or run.time_s is None or run.top1 is None:
        return Verdict(NOT_COMPARABLE, "no pair of time and accuracy is published of it")
    if run.workers != workers:
        theirs = f"the paper's {run.workers:,}" if run.workers else run.processors
        return Verdict(NOT_COMPARABLE, f"the recipe's {workers:,} workers stand for {theirs}")
    if outcome.top1 is None:
        return Verdict(NOT_COMPARABLE, "it was not validated")
    points, ratio = round(outcome.top1 - run.top1, 6), outcome.loop_time_s / run.time_s
    ratio = round(ratio, 6)
    missed_top1, missed_time = abs(points) > TOP1_POINTS, ratio > TIME_RATIO
    top1 = f"top-1 {_points(points)} {run.top1:.2f} %{f' (at most {TOP1_POINTS:g})' if missed_top1 else ''}"
    time = f"{_above(ratio, TIME_RATIO)} times {run.time}{f' (at most {TIME_RATIO:g})' if missed_time else ''}"
    return Verdict(NOT_REPRODUCED if missed_top1 or missed_time else REPRODUCED, f"{top1}, {time}")


def _points(points: float) -> str:
    return f"{_above(abs(points), TOP1_POINTS)} points {'below' if points < 0 else 'above'}"


def _above(value: float, bound: float) -> str:
    """A figure with two digits, or with so many that it is seen to be above the bound where it is."""
    texts = [f"{value:.{digits}f}" for digits in range(2, 7)]
    return next((text for text in texts if value <= bound or float(text) > bound), texts[-1])
