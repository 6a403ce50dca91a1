"""Everything that the report is drawn from, in one place. Torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.estimate.run import Bracket
from pipeline.published import Published
from pipeline.report.curves import Curve
from pipeline.report.groups import Group, groups
from pipeline.report.recipes import Recipe
from pipeline.report.records import Record


@dataclass(frozen=True)
class Estimated:
    """What the model says of a recipe at the site where its paper ran."""

    site: str
    training_s: Bracket
    """All updates."""
    grid: str
    """The best one, `34x64`."""
    place: int
    """Of the recipe's own grid among all, from 1."""
    grids: int


@dataclass(frozen=True, order=True)
class Size:
    """A row of the table of scaling."""

    site: str
    batch: int
    """Images a worker."""
    workers: int


@dataclass(frozen=True)
class Scaling:
    """What `make scaling` measured at a size, on real images and on synthetic ones; None: there is no result."""

    images_per_s: float | None
    efficiency: float | None
    """Percent of the smallest size's images a second for each worker."""
    synthetic_images_per_s: float | None
    synthetic_efficiency: float | None


@dataclass(frozen=True)
class Material:
    """All of it."""

    published: Published
    recipes: tuple[Recipe, ...]
    """In the order of the tables."""
    records: tuple[Record, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    """(folder, why) of what is no run or cannot be read."""
    curves: Mapping[str, Curve] = field(default_factory=dict)
    """By run folder, as in its record."""
    estimates: Mapping[str, Estimated] = field(default_factory=dict)
    """By experiment."""
    estimated_scaling: Mapping[Size, Bracket] = field(default_factory=dict)
    """Efficiency in percent."""
    measured_scaling: Mapping[Size, Scaling] = field(default_factory=dict)
    modelled_scaling: Mapping[Size, Scaling] = field(default_factory=dict)
    """Of scale models."""

    @cached_property
    def measured(self) -> dict[str, Group]:
        """Runs at full size, by experiment."""
        return groups(self.records, scale_models=False)

    @cached_property
    def scale_models(self) -> dict[str, Group]:
        return groups(self.records, scale_models=True)
