"""What papers report (conf/published/): scaling efficiency, times and accuracy of runs. Torch-free.

What is not known is None, or "" for words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.config.stored import read_yaml
from pipeline.errors import UserError
from pipeline.report.marks import marks_in

FOLDER = Path(__file__).resolve().parents[1] / "conf" / "published"

SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
"""By the unit that a time is printed in."""


@dataclass(frozen=True)
class Efficiency:
    """A scaling efficiency that a paper reports, against one node."""

    system: str
    site: str
    from_workers: int
    batch: int
    """Images a worker."""
    percent: float
    and_above: bool = False
    """Whether it speaks of all numbers of workers from there on."""
    words: str = ""
    """The paper's, where they are less than a figure of this very size."""

    def speaks_of(self, site: str, workers: int, batch: int) -> bool:
        fits = workers >= self.from_workers if self.and_above else workers == self.from_workers
        return fits and site == self.site and batch == self.batch


@dataclass(frozen=True)
class ScalingSystem:
    """A row of the paper's Table 2."""

    system: str
    processors: str
    interconnect: str
    percent: float | None = None
    """None: the figure of `workers` at `site` stands among the efficiencies."""
    words: str = ""
    site: str = ""
    workers: int | None = None
    batch: int | None = None


@dataclass(frozen=True)
class PublishedRun:
    """What papers report of the run that an experiment of conf/exp/ is the recipe of."""

    experiment: str
    title: str
    table1: str = ""
    """The name of its row in the paper's Table 1; empty: it has none."""
    system: str = ""
    """By whom, for the estimate."""
    site: str = ""
    batch: str = ""
    processors: str = ""
    workers: int | None = None
    library: str = ""
    time: str = ""
    """As it is printed: `29 h`."""
    top1: float | None = None
    """Percent."""
    words: str = ""

    @property
    def time_s(self) -> float | None:
        """The time in seconds; None where none is printed."""
        if not self.time:
            return None
        number, unit = self.time.split()
        return float(number) * SECONDS[unit]


@dataclass(frozen=True)
class Time:
    """How long a paper's run took at a site that conf/site/ has."""

    system: str
    site: str
    experiment: str
    workers: int
    time_s: float


@dataclass(frozen=True)
class Published:
    """All of it."""

    efficiency: tuple[Efficiency, ...]
    systems: tuple[ScalingSystem, ...]
    runs: tuple[PublishedRun, ...]
    marks: Mapping[str, str] = field(default_factory=dict)
    """How sure each value of experiments.yaml is, by its dotted key, as `exp2.time`."""

    def mark(self, experiment: str, name: str) -> str:
        """Of a value of a run; "paper" where the file has no such value."""
        return self.marks.get(f"{experiment}.{name}", "paper")

    def efficiency_of(self, site: str, workers: int, batch: int) -> Efficiency | None:
        """The figure for a run, the most exact where there are several; None where there is none."""
        fitting = [one for one in self.efficiency if one.speaks_of(site, workers, batch)]
        return min(fitting, key=lambda one: one.and_above, default=None)

    def time_of(self, site: str, workers: int, experiment: str) -> Time | None:
        """What the run of this experiment took, where it was of that site and size."""
        run = self.run(experiment)
        if run is None or run.time_s is None or (run.site, run.workers) != (site, workers):
            return None
        return Time(run.system, site, experiment, workers, run.time_s)

    def run(self, experiment: str) -> PublishedRun | None:
        return next((one for one in self.runs if one.experiment == experiment), None)


def read(folder: Path = FOLDER) -> Published:
    """What the folder's files hold. Raises UserError for one that somebody edited into something else."""
    scaling, experiments = folder / "scaling.yaml", folder / "experiments.yaml"
    efficiency, systems = (_of_each(scaling, key, kind) for key, kind in OF_SCALING.items())
    runs = []
    for name, keys in _read(experiments).items():
        run = _made(experiments, PublishedRun, {"experiment": name, **(keys or {})})
        try:
            _ = run.time_s
        except (ValueError, KeyError):
            raise UserError(f"{experiments}: {name}: time: {run.time}: a number and {', '.join(SECONDS)}") from None
        runs.append(run)
    return Published(tuple(efficiency), tuple(systems), tuple(runs), marks_in(experiments.read_text()))


OF_SCALING: dict[str, type] = {"efficiency": Efficiency, "systems": ScalingSystem}
"""Lists of scaling.yaml, and what each entry is."""


def _of_each(path: Path, key: str, kind: type) -> list[Any]:
    return [_made(path, kind, entry) for entry in _read(path).get(key, [])]


def _made(path: Path, kind: type, entry: dict[str, Any]) -> Any:
    try:
        return kind(**entry)
    except TypeError as error:
        raise UserError(f"{path}: {str(error).partition(' ')[2]}") from None


def _read(path: Path) -> dict[str, Any]:
    found = read_yaml(path)
    if not isinstance(found, dict):
        raise UserError(f"{path} holds a list; it must hold keys")
    return found
