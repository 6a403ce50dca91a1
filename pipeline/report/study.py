"""The study's results: top-1 by experiment, differences to the reference, curves; for docs/results/. Torch-free.

In: groups of whole scale models that differ in experiment and seed. Out: a table, a summary for programs, CSV.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from pipeline.report.curves import Curve
from pipeline.report.figure3 import REFERENCE
from pipeline.report.figures import count, percent, seconds
from pipeline.report.groups import Group
from pipeline.report.paired import Difference, difference
from pipeline.report.paper_tables import gpus, marked
from pipeline.report.recipes import Recipe
from pipeline.report.table import Cell, Column, Table, columns, made, row, texts


@dataclass(frozen=True)
class Result:
    """What the runs of an experiment came to."""

    recipe: Recipe
    group: Group
    top1: Mapping[int, float]
    """Percent, by seed."""
    difference: Difference | None
    """To the reference, percentage points; None for the reference itself, and where no seed is shared."""

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the seeds, percentage points."""
        return stdev(self.top1.values()) if len(self.top1) > 1 else None

    def in_words(self) -> str:
        """What the interval says."""
        if self.difference is None or self.difference.low is None or self.difference.high is None:
            return ""
        if self.difference.high < 0:
            return "below the reference"
        if self.difference.low > 0:
            return "above the reference"
        return "no difference seen"


def results(recipes: Sequence[Recipe], scale_models: Mapping[str, Group]) -> list[Result]:
    """A result an experiment that was run, in the order of the recipes."""
    top1 = {experiment: _top1(group) for experiment, group in scale_models.items()}
    reference = top1.get(REFERENCE, {})
    return [
        Result(
            one,
            scale_models[one.experiment],
            top1[one.experiment],
            None if one.experiment == REFERENCE else difference(top1[one.experiment], reference),
        )
        for one in recipes
        if top1.get(one.experiment)
    ]


def _top1(group: Group) -> dict[int, float]:
    outcomes = ((record.config.seed, record.outcome) for record in group.records)
    return {seed: one.top1 for seed, one in outcomes if one is not None and one.top1 is not None}


def table(found: Sequence[Result], note: str) -> Table:
    """A row an experiment."""
    of = [
        Column("experiment", is_number=False),
        *columns("recipe", "GPUs", "largest total batch"),
        *columns("scale model", "workers", "largest batch", "updates", "runs", "top-1", "over seeds ±"),
        *columns("scale model", "to the reference, points"),
        *texts("scale model", "95 % interval", "that is"),
        *columns("scale model", "time"),
    ]
    return made("study", "Scale models against the reference", note, of, [_row(one) for one in found])


def _row(one: Result) -> Any:
    plan, gap = one.group.plan, one.difference
    low, high = (None, None) if gap is None else (gap.low, gap.high)
    return row(
        one.recipe.title,
        gpus(one.recipe),
        _largest_batch(one.recipe),
        count(plan.workers),
        count(max(stage.total_batch for stage in plan.stages)),
        count(plan.updates),
        count(len(one.top1)),
        percent(fmean(one.top1.values())),
        "" if one.deviation is None else f"{one.deviation:.2f}",
        "" if gap is None else f"{gap.mean:+.2f}",
        "" if low is None or high is None else f"{low:+.2f} to {high:+.2f}",
        one.in_words(),
        seconds(one.group.time_s),
    )


def _largest_batch(recipe: Recipe) -> Cell:
    number, stage = max(enumerate(recipe.plan.stages), key=lambda one: one[1].recipe_batch)
    return marked(count(stage.recipe_batch), recipe.mark(f"recipe.stages.{number}.per_worker_batch", "recipe.workers"))


def summary(found: Sequence[Result], about: Mapping[str, Any]) -> dict[str, Any]:
    """For programs. about: machine, date, versions, data."""
    return {**about, "experiments": {one.recipe.experiment: _of_result(one) for one in found}}


def _of_result(one: Result) -> dict[str, Any]:
    gap, plan = one.difference, one.group.plan
    return {
        "title": one.recipe.title,
        "gpus": one.recipe.config.recipe.workers,
        "workers": plan.workers,
        "training_images": plan.samples,
        "validation_images": one.group.outcomes[0].validation_images,
        "updates": plan.updates,
        "batches": [stage.total_batch for stage in plan.stages],
        "top1_by_seed": {str(seed): round(top1, 4) for seed, top1 in sorted(one.top1.items())},
        "top1": round(fmean(one.top1.values()), 4),
        "top1_deviation": None if one.deviation is None else round(one.deviation, 4),
        "to_reference": None if gap is None else round(gap.mean, 4),
        "interval": None
        if gap is None or gap.low is None or gap.high is None
        else [round(gap.low, 4), round(gap.high, 4)],
        "pairs": 0 if gap is None else gap.pairs,
        "time_s": round(one.group.time_s, 1),
    }


def curves_csv(curves: Mapping[str, Curve]) -> str:
    """Mean errors in percent by experiment and epoch; validation is empty where there was none."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["experiment", "epoch", "training_error", "validation_error"])
    for experiment, curve in curves.items():
        for epoch in sorted({*curve.training, *curve.validation}):
            pair = (of.get(epoch) for of in (curve.training, curve.validation))
            writer.writerow([experiment, epoch, *("" if one is None else f"{one:.3f}" for one in pair)])
    return stream.getvalue()
