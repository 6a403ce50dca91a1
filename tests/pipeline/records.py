"""Reads what a run leaves for others with the others' own readers: TensorBoard, MLPerf's checker."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def tensorboard_points(folder: Path) -> dict[str, dict[int, float]]:
    """Every tag of a folder of events: its values by step, as TensorBoard shows them."""
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})  # 0: all points
    accumulator.Reload()
    return {
        tag: {point.step: point.value for point in accumulator.Scalars(tag)} for tag in accumulator.Tags()["scalars"]
    }


def mlperf_records(path: Path) -> list[dict[str, Any]]:
    """The records of an mlperf.log, in order."""
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()]


def assert_complies(path: Path) -> None:
    """MLPerf's own checker accepts an mlperf.log under the rule set that it names, without a warning."""
    words = ["--usage", "training", "--ruleset", "4.0.0", "--werror", "--log_output", "/dev/null", str(path)]
    command = [sys.executable, "-m", "mlperf_logging.compliance_checker", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
