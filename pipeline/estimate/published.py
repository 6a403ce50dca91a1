"""What papers report of speed (conf/published/), found for a run of the same machine and size. Torch-free."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).resolve().parents[2] / "conf" / "published" / "scaling.yaml"


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
class Time:
    """How long a paper's run took."""

    system: str
    site: str
    experiment: str
    workers: int
    time_s: float

    def speaks_of(self, site: str, workers: int, experiment: str) -> bool:
        return (site, workers, experiment) == (self.site, self.workers, self.experiment)


@dataclass(frozen=True)
class Published:
    """All of it."""

    efficiency: tuple[Efficiency, ...]
    time: tuple[Time, ...]

    def efficiency_of(self, site: str, workers: int, batch: int) -> Efficiency | None:
        """The figure for a run, the most exact where there are several; None where there is none."""
        fitting = [one for one in self.efficiency if one.speaks_of(site, workers, batch)]
        return min(fitting, key=lambda one: one.and_above, default=None)

    def time_of(self, site: str, workers: int, experiment: str) -> Time | None:
        return next((one for one in self.time if one.speaks_of(site, workers, experiment)), None)


def read(path: Path = FILE) -> Published:
    """What the file holds."""
    found: dict[str, list[dict[str, Any]]] = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return Published(
        tuple(Efficiency(**one) for one in found["efficiency"]), tuple(Time(**one) for one in found["time"])
    )
