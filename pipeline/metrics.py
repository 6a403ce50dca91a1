"""What a run measures: a line an update in metrics.jsonl, one a validation in validations.jsonl, totals an attempt.

Written by the first rank only. Torch-free.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import UserError
from pipeline.run_folder import RunFolder, check_regular, write_atomically
from pipeline.stored_json import parse


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
    update_s: float
    """From asking for the update's images to its changed weights, on the first worker."""
    communication_exposed_s: float
    """Waiting for averaged gradients and for nothing else: mean over the workers, and over the updates since the last
    agreement."""
    communication_s: float
    """While any bucket was being averaged, hidden behind the backward pass or not; a mean alike."""


@dataclass(frozen=True)
class ValidationLine:
    """One validation, as validations.jsonl has it."""

    update: int
    """Updates done before it."""
    epoch: float
    """Fractional epoch that the run had reached."""
    top1: float
    """Share of the images whose label came first, in percent."""
    images: int
    took_s: float


@dataclass(frozen=True)
class LoopTime:
    """Where the loop time between two agreements went, in seconds."""

    loop_s: float
    updates_s: float
    """In updates, on the first worker."""
    data_s: float
    """In updates, waiting for images; mean over the workers."""
    communication_s: float
    """In updates, waiting for averaged gradients and for nothing else; mean over the workers."""

    def shares(self) -> dict[str, float]:
        """Shares of loop_s, 0 to 1, that add up to 1; `other` is agreeing, validating and saving."""
        compute_s = max(0.0, self.updates_s - self.data_s - self.communication_s)
        parts = {"data": self.data_s, "compute": compute_s, "communication": self.communication_s}
        whole = max(self.loop_s, sum(parts.values()))
        shares = {name: seconds / whole for name, seconds in parts.items()}
        return shares | {"other": 1 - sum(shares.values())}


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
    averaging_s: float = 0.0
    """Loop time in which any bucket was being averaged, hidden behind the backward pass or not."""
    data_s: float = 0.0
    """Loop time in which a worker waited for images."""

    def plus(self, other: "Totals") -> "Totals":
        return Totals(**{name: value + getattr(other, name) for name, value in asdict(self).items()})


class MetricsFile:
    """metrics.jsonl or validations.jsonl, appended to in whole lines.

    What lies beyond `update`, of an attempt that died, is dropped.
    """

    def __init__(self, path: Path, update: int) -> None:
        lines = read_metrics(path)
        kept = [text for text, line in zip(_whole_lines(path), lines, strict=True) if line["update"] <= update]
        write_atomically(path, "".join(kept))
        self._file = path.open("a")

    def write(self, lines: Sequence[UpdateLine | ValidationLine]) -> None:
        self._file.write("".join(json.dumps(asdict(line)) + "\n" for line in lines))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All lines of a metrics.jsonl or validations.jsonl, oldest first; none where there is no such file.

    Raises UserError for what is not a regular file, cannot be read or is damaged.
    """
    check_regular(path)
    try:
        lines = [parse(line) for line in _whole_lines(path)]
        if all(isinstance(line["update"], int) for line in lines):
            return lines
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    raise UserError(f"{path} is damaged: not every line is JSON of an update; mend or remove it")


def newest_lines(path: Path, *, end_bytes: int = 8192) -> tuple[list[dict[str, Any]], bool]:
    """The last lines of a metrics.jsonl or validations.jsonl, oldest first, and whether the file's end is sound.

    Only the last `end_bytes` bytes are read. A line that is half written, or no JSON, is left out. Raises UserError for
    what is not a regular file.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            length = file.seek(0, 2)
            file.seek(max(0, length - end_bytes))
            *whole, half = file.read().decode(errors="replace").split("\n")
    except FileNotFoundError:
        return [], True
    lines, sound = [], not half
    for text in whole[length > end_bytes :]:  # the first one may have begun before what was read
        try:
            line = parse(text)
            lines.append(line | {"update": int(line["update"])})
        except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
            sound = False
    return lines, sound


def save_totals(attempt: Path | None, totals: Totals) -> None:
    """Leave an attempt's totals in its folder."""
    if attempt is not None:
        write_atomically(attempt / "totals.json", json.dumps(asdict(totals)) + "\n")


def earlier_totals(folder: RunFolder, attempt: Path | None) -> Totals:
    """The sum over the attempts before `attempt` that left totals."""
    total = Totals()
    for path in folder.attempts.glob("*/totals.json"):
        if path.parent != attempt:
            try:
                total = total.plus(Totals(**parse(path.read_text())))
            except (ValueError, TypeError, RecursionError):
                raise UserError(f"{path} is damaged; remove it, and the result leaves out that attempt") from None
    return total


def _whole_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
