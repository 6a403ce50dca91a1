"""events/ as TensorBoard reads it, and after an attempt that died."""

from pathlib import Path

import pytest

from pipeline.events import EventFile
from pipeline.metrics import LoopTime, UpdateLine, ValidationLine
from tests.pipeline.records import tensorboard_points

TIME = LoopTime(loop_s=1.0, updates_s=0.8, data_s=0.1, communication_s=0.2)


def line(update: int, loss: float = 0.5) -> UpdateLine:
    return UpdateLine(update, update / 37, loss, 25.0, 3.1, 0.9, 64, 1024.0, False, update * 0.05, 0.04, 0.01, 0.02)


def test_tensorboard_reads_every_quantity_by_update(tmp_path: Path) -> None:
    events = EventFile(tmp_path / "events", 0)
    events.updates([line(1), line(2)], TIME)
    events.validated(ValidationLine(2, 0.1, 75.0, 1000, 0.3))
    events.close()
    points = tensorboard_points(tmp_path / "events")
    values = {"loss": 0.5, "training_error": 25.0, "lr": 3.1, "momentum": 0.9, "batch": 64.0, "images_per_s": 1600.0}
    expected = {f"update/{name}": {1: value, 2: value} for name, value in values.items()}
    shares = {"data": 0.1, "compute": 0.5, "communication": 0.2, "other": 0.2}
    expected |= {f"loop_share/{name}": {2: share} for name, share in shares.items()}
    expected["validation/top1"] = {2: 75.0}
    assert set(points) == set(expected)
    for tag, by_step in expected.items():
        assert points[tag] == pytest.approx(by_step), tag


def test_a_resumed_attempt_leaves_no_point_beyond_its_checkpoint(tmp_path: Path) -> None:
    first = EventFile(tmp_path, 0)
    first.updates([line(update, 1.0) for update in range(1, 8)], TIME)
    first.validated(ValidationLine(7, 0.2, 75.0, 1000, 0.3))
    first.close()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-5])  # a rank killed while it wrote
    again = EventFile(tmp_path, 5)
    assert list(tensorboard_points(tmp_path)["update/loss"]) == [1, 2, 3, 4, 5]
    again.updates([line(6, 2.0)], TIME)
    again.close()
    points = tensorboard_points(tmp_path)
    assert points["update/loss"] == {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0, 5: 1.0, 6: 2.0}
    assert "validation/top1" not in points
    assert len(list(tmp_path.iterdir())) == 1


def test_an_agreement_without_updates_adds_nothing(tmp_path: Path) -> None:
    events = EventFile(tmp_path, 0)
    events.updates([], TIME)
    events.close()
    assert tensorboard_points(tmp_path) == {}
