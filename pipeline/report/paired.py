"""Differences between paired runs, with their 95 % interval. Torch-free.

Runs of two experiments with one seed are a pair: they begin with the same weights and see images in an order that the
same seed draws, so what the seed does to both is not in their difference. The interval is Student's for a mean of n
differences, mean ± t(0.975, n - 1) · s / √n, and takes them for independent and normal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences."""

    pairs: int
    mean: float
    half_width: float | None
    """Of the interval; None: one pair says nothing of how much pairs differ."""

    @property
    def low(self) -> float | None:
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        return None if self.half_width is None else self.mean + self.half_width


def difference(values: Mapping[int, float], reference: Mapping[int, float]) -> Difference | None:
    """`values` less `reference` over the seeds that both have; None where there is none."""
    found = [values[seed] - reference[seed] for seed in sorted(values.keys() & reference.keys())]
    if not found:
        return None
    if len(found) == 1:
        return Difference(1, found[0], None)
    return Difference(len(found), fmean(found), t_quantile(len(found) - 1) * stdev(found) / sqrt(len(found)))


def t_quantile(degrees_of_freedom: int) -> float:
    """What Student's t lies below with a probability of (1 + LEVEL) / 2."""
    from scipy.special import stdtrit  # here: SciPy is only worth it where there are pairs

    return float(stdtrit(degrees_of_freedom, (1 + LEVEL) / 2))
