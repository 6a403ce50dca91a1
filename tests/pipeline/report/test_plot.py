"""Plots of runs: what they draw, that they say `scale model`, and their one-line errors."""

import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from jobs.compose import compose
from pipeline.config import make_plan, save
from pipeline.metrics import MetricsFile, UpdateLine, ValidationLine
from pipeline.report import plot
from pipeline.run_folder import RunFolder


def run(path: Path, words: list[str], updates: int = 120) -> RunFolder:
    """A run folder with so many updates and a validation in it."""
    folder = RunFolder.create(path)
    config = compose(words)
    save(config, folder.config)
    plan = make_plan(config)
    metrics = MetricsFile(folder.metrics, 0)
    for update in range(1, updates + 1):
        epoch, inside = plan.position(update - 1)
        stage = plan.stage_at(epoch)
        at = epoch + inside / stage.updates_per_epoch
        batch, error = stage.total_batch, 90 - update / 2
        metrics.write([UpdateLine(update, at, 0.5, error, 0.1, 0.9, batch, 1.0, False, update / 20, 0.04, 0.01, 0.02)])
    metrics.close()
    if updates:
        validations = MetricsFile(folder.validations, 0)
        validations.write([ValidationLine(updates, updates / 37, 75.0, 1000, 0.3)])
        validations.close()
    return folder


def words_of(svg: Path) -> str:
    return " ".join(" ".join(ElementTree.parse(svg).getroot().itertext()).split())


def test_it_leaves_both_pictures_of_a_run_and_says_that_it_is_a_scale_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path / "a", ["exp=exp5"])
    assert plot.main([str(folder.path)]) == 0
    svg, png = folder.plots / "training.svg", folder.plots / "training.png"
    assert capsys.readouterr().out.splitlines() == [str(svg), str(png)]
    assert png.read_bytes().startswith(b"\x89PNG")
    for part in ("exp5: scale model of 2176 GPUs", "error, %", "training", "validation", "LR", "momentum", "batch"):
        assert part in words_of(svg), part


def test_several_runs_are_drawn_together_and_told_apart(tmp_path: Path) -> None:
    first, second, third = (
        run(tmp_path / "a", ["exp=exp5"]),
        run(tmp_path / "b", ["exp=exp5", "seed=1"]),
        run(tmp_path / "c", ["exp=reference"]),
    )
    first.plots.mkdir()
    (first.plots / "training.svg").write_text("its own")
    assert plot.main([str(one.path) for one in (first, second, third)]) == 0
    assert (first.plots / "training.svg").read_text() == "its own"
    text = words_of(first.plots / "together.svg")
    for part in ("exp5 (a), validation", "exp5 (b), validation", "reference, validation"):
        assert part in text, part
    assert "reference: scale model of 1088 GPUs" in text
    assert not second.plots.exists()


def test_what_is_drawn_is_what_the_run_left(tmp_path: Path) -> None:
    (curves,) = plot.read([run(tmp_path / "a", ["exp=exp5", "scale=null", "workers=16"], updates=50)])
    assert curves.note == "full size"
    assert curves.training_error == pytest.approx(90 - np.arange(1, 51) / 2)
    assert set(curves.batch) == {34816}
    assert curves.validation_error == pytest.approx([25.0])


def test_the_smoothed_line_is_a_mean_over_an_epoch_around_each_point() -> None:
    # Four updates an epoch, then two: half an epoch to each side is 2 updates, then 1.
    epoch = np.array([0, 0.25, 0.5, 0.75, 1, 1.5, 2])
    values = np.array([8.0, 0, 4, 0, 8, 2, 4])
    expected = [12 / 3, 12 / 4, 20 / 5, 12 / 4, 14 / 4, 14 / 3, 6 / 2]
    assert plot.smoothed(epoch, values, 1.0) == pytest.approx(expected)


def test_a_line_that_lacks_a_value_or_a_file_that_is_none_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path / "a", ["exp=exp5"], updates=2)
    whole = folder.metrics.read_text()
    told = {
        whole.replace('"lr": 0.1, ', "", 1): "metrics.jsonl: lr of update 1 is not there",
        whole.replace('"lr": 0.1, ', '"lr": "high", ', 1): "metrics.jsonl: lr of update 1 is 'high'",
        whole.replace('"training_error": 89.0', f'"training_error": 1{"0" * 400}'): "metrics.jsonl is damaged",
        whole.replace('"batch": 64', '"batch": 1e308', 1): "metrics.jsonl: batch of update 1 is 1e+308",
    }
    for text, line in told.items():
        folder.metrics.write_text(text)
        assert plot.main([str(folder.path)]) == 1
        assert line in capsys.readouterr().err
    folder.metrics.unlink()
    for make, remove in ((Path.mkdir, Path.rmdir), (os.mkfifo, Path.unlink)):
        make(folder.metrics)
        assert plot.main([str(folder.path)]) == 1
        assert "metrics.jsonl is not a regular file" in capsys.readouterr().err
        remove(folder.metrics)


@pytest.mark.parametrize(("make", "expected"), [(False, "no such run folder"), (True, "no metrics yet")])
def test_a_run_that_cannot_be_drawn_gives_its_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: bool, expected: str
) -> None:
    if make:
        run(tmp_path / "a", ["exp=exp5"], updates=0)
    assert plot.main([str(tmp_path / "a")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert expected in line
