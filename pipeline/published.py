"""What papers report (conf/published/): scaling efficiency, times and accuracy of runs. Torch-free.

What is not known is None, or "" for words.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pipeline.config.stored import read_yaml
from pipeline.errors import UserError, nearest
from pipeline.report.marks import marks_in

FOLDER = Path(__file__).resolve().parents[1] / "conf" / "published"

SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
"""By the unit that a time is printed in."""

MOST = 10**9
"""Of workers, or of images a worker."""


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
    scaling, experiments = scaling_file(folder), experiments_file(folder)
    lists = _read(scaling)
    _check_keys(f"{scaling}", lists, OF_SCALING)
    efficiency, systems = (_of_each(scaling, key, kind, lists.get(key)) for key, kind in OF_SCALING.items())
    runs = []
    for name, keys in _read(experiments).items():
        runs.append(_made(f"{experiments}: {name}", PublishedRun, keys, experiment=str(name)))
    return Published(tuple(efficiency), tuple(systems), tuple(runs), marks_in(experiments.read_text()))


def scaling_file(folder: Path = FOLDER) -> Path:
    return folder / "scaling.yaml"


def experiments_file(folder: Path = FOLDER) -> Path:
    return folder / "experiments.yaml"


OF_SCALING: dict[str, type] = {"efficiency": Efficiency, "systems": ScalingSystem}
"""Lists of scaling.yaml, and what each entry is."""


def _of_each(path: Path, key: str, kind: type, entries: object) -> list[Any]:
    if entries is not None and not isinstance(entries, list):
        raise UserError(f"{path}: {key} is {entries!r:.60}; write a list, as - {{system: …}}")
    return [_made(f"{path}: {key}[{place}]", kind, entry) for place, entry in enumerate(entries or ())]


def _made(where: str, kind: type, entry: object, **given: Any) -> Any:
    """An entry as its class; null is what is not known, as an absent key is. where: its file and its place there."""
    names = {one.name: one for one in fields(kind) if one.name not in given}
    if entry is not None and not isinstance(entry, dict):
        raise UserError(f"{where} is {entry!r:.60}; write keys, as title: …; there are {', '.join(names)}")
    known = {key: value for key, value in (entry or {}).items() if value is not None}
    _check_keys(where, known, names)
    for name, one in names.items():
        if one.default is MISSING and name not in known:
            raise UserError(f"{where} has no {name}")
    hints = get_type_hints(kind)
    for key, value in known.items():
        _check(f"{where}: {key}", key, value, hints[key])
    return kind(**known, **given)


def _check_keys(where: str, found: Iterable[object], valid: Collection[str]) -> None:
    for key in found:
        if key not in valid:
            guess = nearest(str(key), valid)
            hint = f"did you mean {guess[0]}? " if guess else ""
            raise UserError(f"{where}: unknown key {key!s:.60}; {hint}there are {', '.join(valid)}")


def _check(where: str, key: str, value: object, hint: object) -> None:
    """Raise UserError for a value that is not of its field's type, or that no paper prints."""
    kinds = get_args(hint) or (hint,)
    if key == "time":
        fits, right = _is_time(value), f"a number above 0 and one of {', '.join(SECONDS)}, as 224 s"
    elif bool in kinds:
        fits, right = isinstance(value, bool), "true or false"
    elif int in kinds:
        fits = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST
        right = f"a whole number from 1 to {MOST}"
    elif float in kinds:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 100
        right = "percent as a bare number, above 0 and at most 100"
    else:
        fits, right = isinstance(value, str), "words; a number as words stands in quotes"
    if not fits:
        raise UserError(f"{where} is {value!r:.60}; write {right}")


def _is_time(value: object) -> bool:
    """Whether it is a time as papers print it: `29 h`."""
    number, _, unit = value.partition(" ") if isinstance(value, str) else ("", "", "")
    return unit in SECONDS and bool(re.fullmatch(r"\d{1,9}(\.\d{1,9})?", number)) and float(number) > 0


def _read(path: Path) -> dict[Any, Any]:
    found = read_yaml(path)
    if not isinstance(found, dict):
        raise UserError(f"{path} holds a list; it must hold keys")
    return found
