"""Error curves by epoch, by hand, and what is passed over."""

import math
from pathlib import Path

import pytest

from pipeline.report.curves import Curve, mean_curve, read_curve, training_errors, validation_errors
from pipeline.report.figure3 import as_svg, draw, panels
from pipeline.run_folder import RunFolder


def line(epoch: object, error: object, batch: object) -> dict[str, object]:
    return {"epoch": epoch, "training_error": error, "batch": batch}


def test_an_epochs_error_is_the_mean_over_its_images() -> None:
    # (100 x 50 + 300 x 10) / 400 = 20 % after the first epoch, 8 % after the second.
    assert training_errors([line(0.0, 50.0, 100), line(0.5, 10.0, 300), line(1.0, 8.0, 100)]) == {1: 20.0, 2: 8.0}


@pytest.mark.parametrize(
    "bad",
    [
        {"epoch": 1.5}, line(1.5, math.nan, 100), line(1.5, "x", 100), line(math.inf, 1.0, 100), line(1.5, None, 1),
        line(1.5, 10**400, 100), line(1.5, 1.0, 1e308), line(1e308, 1.0, 100), line(-1.0, 1.0, 100),
    ],
)  # fmt: skip
def test_a_line_that_says_nothing_is_passed_over(bad: dict[str, object]) -> None:
    assert training_errors([line(0.0, 50.0, 100), bad, line(1.0, 8.0, 100)]) == {1: 50.0, 2: 8.0}


def test_validation_errors_are_by_epochs_done() -> None:
    assert validation_errors([{"epoch": 10.0, "top1": 40.0}, {"epoch": 20.0, "top1": 97.5}]) == {10: 60.0, 20: 2.5}


def test_the_mean_is_over_the_epochs_that_all_have() -> None:
    first, second = Curve({1: 10.0, 2: 6.0, 3: 5.0}, {3: 8.0}), Curve({1: 20.0, 2: 8.0}, {})
    assert mean_curve([first, second]) == Curve({1: 15.0, 2: 7.0}, {})


def test_half_a_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.metrics.write_text('{"update": 1, "epoch": 0.0, "training_error": 9.0, "batch": 4}\n{"update": 2, "ep')
    assert read_curve(folder) == Curve({1: 9.0}, {})


def test_a_title_is_drawn_as_it_is_and_words_say_what_is_seen() -> None:
    curve, reference = Curve({1: 50.0, 2: 4.0}, {2: 6.0}), Curve({1: 40.0, 2: 3.0}, {})
    first, second = panels(
        {"a": curve, "reference": reference}, {"reference": "Reference", "a": "$x^{ <b>_A", "c": "C"}
    )
    assert (first.title, first.reference) == ("Reference", None)
    assert second.in_words() == (
        "$x^{ <b>_A: training error 4.0 % and validation error 6.0 % at the end; "
        "reference: training error 3.0 % at the end"
    )
    svg = as_svg(draw([first, second], "all"))
    assert b"$x^{ &lt;b&gt;_A" in svg
    assert as_svg(draw([first, second], "all")) == svg
