"""Error curves of runs, a point an epoch, as the paper's Figure 3 has them. Torch-free; numpy.

In: metrics.jsonl and validations.jsonl. A line that is half, no JSON, lacks a key or says what no run can is passed
over.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import UserError
from pipeline.metrics import newest_lines
from pipeline.run_folder import RunFolder
from pipeline.wording import counted

WHOLE = 2**40
"""Bytes: all of a file."""

MOST = {"epoch": 1e6, "training_error": 100.0, "top1": 100.0, "batch": 1e12}
"""Of what a line says; sums over a run stay finite. The least is 0."""


@dataclass(frozen=True)
class Curve:
    """Errors in percent by epoch done: a mean over an epoch's images while training, a validation's result."""

    training: Mapping[int, float]
    validation: Mapping[int, float]


def read_curve(folder: RunFolder) -> Curve:
    """The curve of a run. Raises UserError for a file that is none."""
    return Curve(training_errors(_lines(folder.metrics)), validation_errors(_lines(folder.validations)))


def whole_curve(curve: Curve, epochs: int) -> Curve:
    """`curve`, where it has the training error of every epoch. Raises UserError where it has not: a mean of runs has
    the epochs that all of them have, and would lose these without a word."""
    absent = sum(epoch not in curve.training for epoch in range(1, epochs + 1))
    if absent:
        raise UserError(f"metrics.jsonl has no error of {absent} of its {counted(epochs, 'epoch')}")
    return curve


def training_errors(lines: Iterable[Mapping[str, Any]]) -> dict[int, float]:
    """Mean training error of each epoch over its images, by the epochs done at its end."""
    wrong: defaultdict[int, float] = defaultdict(float)
    images: defaultdict[int, float] = defaultdict(float)
    for line in lines:
        found = _finite(line, "epoch", "training_error", "batch")
        if found is not None:
            epoch, error, batch = found
            wrong[math.floor(epoch) + 1] += error * batch
            images[math.floor(epoch) + 1] += batch
    return {epoch: wrong[epoch] / images[epoch] for epoch in sorted(images) if images[epoch] > 0}


def validation_errors(lines: Iterable[Mapping[str, Any]]) -> dict[int, float]:
    """Validation error by the epochs done."""
    found = (_finite(line, "epoch", "top1") for line in lines)
    return {round(epoch): 100 - top1 for epoch, top1 in filter(None, found)}


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """The mean of several runs, at the epochs that all of them have."""
    return Curve(_mean([curve.training for curve in curves]), _mean([curve.validation for curve in curves]))


def _mean(of_each: Sequence[Mapping[int, float]]) -> dict[int, float]:
    shared = set(of_each[0]).intersection(*of_each) if of_each else set()
    return {epoch: sum(one[epoch] for one in of_each) / len(of_each) for epoch in sorted(shared)}


def _lines(path: Path) -> list[dict[str, Any]]:
    return newest_lines(path, end_bytes=WHOLE)[0]


def _finite(line: Mapping[str, Any], *keys: str) -> tuple[float, ...] | None:
    """The values of `keys`; None where one is absent, no number, or beyond what a run can say."""
    values = [line.get(key) for key in keys]
    if not all(isinstance(one, int | float) and 0 <= one <= MOST[key] for key, one in zip(keys, values, strict=True)):
        return None
    return tuple(float(one) for one in values if one is not None)
