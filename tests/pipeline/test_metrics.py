"""metrics.jsonl: whole lines, and what a dead attempt wrote beyond its checkpoint is dropped."""

from dataclasses import fields
from pathlib import Path

import pytest

from pipeline.metrics import (
    LoopTime,
    MetricsFile,
    Totals,
    UpdateLine,
    ValidationLine,
    earlier_totals,
    read_metrics,
    save_totals,
)
from pipeline.run_folder import RunFolder


def line(update: int) -> UpdateLine:
    return UpdateLine(update, update / 37, 0.5, 10.0, 3.1, 0.9, 64, 1024.0, False, 0.1, 0.1, 0.01, 0.02)


def test_a_resumed_attempt_drops_what_lies_beyond_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path, 0)
    first.write([line(update) for update in range(1, 8)])
    first.close()
    with path.open("a") as file:
        file.write('{"update": 8, "lo')  # a rank killed while it wrote
    again = MetricsFile(path, 5)
    again.write([line(6)])
    again.close()
    assert [one["update"] for one in read_metrics(path)] == [1, 2, 3, 4, 5, 6]


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "validations.jsonl") == []


def test_the_shares_of_the_loop_add_up_to_one() -> None:
    # 10 s of loop, 8 s of them in updates: 1 s waiting for images, 2 s for gradients, so 5 s computing and 2 s outside.
    shares = LoopTime(loop_s=10.0, updates_s=8.0, data_s=1.0, communication_s=2.0).shares()
    assert shares == pytest.approx({"data": 0.1, "compute": 0.5, "communication": 0.2, "other": 0.2})
    # Means over workers may exceed what the first one saw.
    assert LoopTime(loop_s=1.0, updates_s=1.0, data_s=0.6, communication_s=0.6).shares() == pytest.approx(
        {"data": 0.5, "compute": 0.0, "communication": 0.5, "other": 0.0}
    )


def test_totals_are_added_up_over_the_attempts_before(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    for number, seconds in enumerate((10.0, 20.0, 99.0)):
        (folder.attempts / str(number)).mkdir()
        save_totals(folder.attempts / str(number), Totals(updates=5, images=320, loop_time_s=seconds))
    total = earlier_totals(folder, folder.attempts / "2")
    assert (total.updates, total.images, total.loop_time_s) == (10, 640, 30.0)


def test_a_run_outside_a_job_has_no_attempt_to_write_to() -> None:
    save_totals(None, Totals())


def test_a_line_says_what_averaging_took_and_how_much_of_it_was_not_hidden(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl", 0)
    file.write([line(1)])
    file.close()
    (written,) = read_metrics(tmp_path / "metrics.jsonl")
    assert (written["communication_exposed_s"], written["communication_s"]) == (0.01, 0.02)


@pytest.mark.parametrize("kind", [UpdateLine, ValidationLine])
def test_every_field_is_explained_where_a_user_looks(kind: type[UpdateLine | ValidationLine], repository: Path) -> None:
    explained = (repository / "docs" / "metrics.md").read_text()
    assert [field.name for field in fields(kind) if f"`{field.name}`" not in explained] == []
