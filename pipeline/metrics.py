"""What a run measures: one line an update in metrics.jsonl, and totals an attempt. Written by the first rank only."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.run_folder import RunFolder, write_atomically


@dataclass(frozen=True)
class UpdateLine:
    """One update, as metrics.jsonl has it."""

    update: int
    """Updates done, this one included."""
    epoch: float
    """Fractional epoch at the update's start."""
    loss: float
    """Mean over all images of the update."""
    training_error: float
    """Share of the update's images whose label did not come first, in percent."""
    lr: float
    momentum: float
    batch: int
    """Images in the update, over all workers."""
    loss_scale: float
    skipped: bool
    time_s: float
    """Loop time since the attempt began."""


@dataclass
class Totals:
    """What an attempt, or several, spent. Times are means over the workers."""

    updates: int = 0
    images: int = 0
    skipped_updates: int = 0
    replaced_samples: int = 0
    """Training images that stood in for samples that cannot be decoded."""
    wall_time_s: float = 0.0
    loop_time_s: float = 0.0
    communication_s: float = 0.0
    """Loop time in which a worker waited for averaged gradients and for nothing else."""
    data_s: float = 0.0
    """Loop time in which a worker waited for images."""

    def plus(self, other: "Totals") -> "Totals":
        return Totals(**{name: value + getattr(other, name) for name, value in asdict(self).items()})


class MetricsFile:
    """metrics.jsonl, appended to in whole lines; what lies beyond `update` (of an attempt that died) is dropped."""

    def __init__(self, path: Path, update: int) -> None:
        kept = [line for line in _whole_lines(path) if json.loads(line)["update"] <= update]
        write_atomically(path, "".join(kept))
        self._file = path.open("a")

    def write(self, lines: list[UpdateLine]) -> None:
        self._file.write("".join(json.dumps(asdict(line)) + "\n" for line in lines))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All lines of a metrics.jsonl, oldest first."""
    return [json.loads(line) for line in _whole_lines(path)]


def save_totals(attempt: Path | None, totals: Totals) -> None:
    """Leave an attempt's totals in its folder."""
    if attempt is not None:
        write_atomically(attempt / "totals.json", json.dumps(asdict(totals)) + "\n")


def earlier_totals(folder: RunFolder, attempt: Path | None) -> Totals:
    """The sum over the attempts before `attempt` that left totals."""
    total = Totals()
    for path in folder.attempts.glob("*/totals.json"):
        if path.parent != attempt:
            total = total.plus(Totals(**json.loads(path.read_text())))
    return total


def _whole_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
