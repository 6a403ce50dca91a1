"""A worker stands still for a second amid an update: the run goes on, and says which one it was."""

import re
import subprocess
from pathlib import Path

from torch import Tensor

from pipeline.watch import FEWEST
from tests.faults.table import Row, note
from tests.faults.trained import train_struck
from tests.pipeline.test_trainer import MODEL, SHORT

STRUCK = FEWEST + 4
STAND_STILL = "kill -STOP $PPID; sleep 2; kill -CONT $PPID"


def stand_still(rank: int, update: int, gradient: Tensor) -> Tensor:
    if (rank, update) == (2, STRUCK):
        subprocess.run(["sh", "-c", STAND_STILL], check=True)
    return gradient


def test_a_worker_that_stands_still_for_a_moment_is_named(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={sample}"]
    found, lines = train_struck(tmp_path / "run", words, STRUCK + 4, stand_still)
    assert len(lines) == STRUCK + 4
    (line,) = [line for line in found[0].slow if line.startswith(f"update {STRUCK} ")]
    assert re.fullmatch(
        r"update 24 took [\d.]+ s, [\d.]+ times the median: rank 2 \(on .+\) was the slowest, in compute "
        r"\([\d.]+ s since the last agreement\)",
        line,
    )
    note(Row("a rank slow for a moment", f"slow: {line}", None, 0, "the run goes on"))
