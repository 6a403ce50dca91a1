"""The recipes of conf/exp/ as the paper's tables show them: stages, grid, GPUs, each cell with its mark. Torch-free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.config import Config, Plan, make_plan
from pipeline.published import Published
from pipeline.report.marks import REBUILT, least_sure


@dataclass(frozen=True)
class Recipe:
    """An experiment at full size."""

    experiment: str
    title: str
    config: Config
    plan: Plan
    """With a worker for each of the paper's GPUs."""
    marks: Mapping[str, str]
    """By dotted key, as `marks_of` has them."""

    def mark(self, *keys: str) -> str:
        """The mark of a value, or of what follows from several by arithmetic."""
        found = [self.marks.get(key, REBUILT) for key in keys]
        return found[0] if len(found) == 1 else least_sure(*found)


def make_recipe(config: Config, marks: Mapping[str, str], published: Published) -> Recipe:
    """The recipe of a configuration at full size, whose workers are the paper's GPUs."""
    run = published.run(config.experiment)
    return Recipe(config.experiment, run.title if run else config.experiment, config, make_plan(config), marks)


def in_order(names: Sequence[str], published: Published) -> list[str]:
    """Experiments in the order of conf/published/, then those that it does not speak of, by name."""
    known = [run.experiment for run in published.runs if run.experiment in names]
    return known + sorted(set(names) - set(known))
