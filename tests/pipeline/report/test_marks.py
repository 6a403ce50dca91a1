"""Marks: which value of a YAML file has which, and that one without any does not pass for the paper's."""

from pathlib import Path

import pytest

from pipeline.report.marks import least_sure, marks_in, marks_of

TEXT = """\
recipe:
  workers: 2176   # paper
  grid: {vertical: 34, horizontal: 64}   # rebuilt
  stages:
    - {start_epoch: 0, per_worker_batch: 16}   # paper
    - {start_epoch: 60, per_worker_batch: 56}   # derived: 119K / 2176; the epoch is rebuilt
  system: "of # 5"   # log
  epochs: 90
  # paper: said above
  images: 7
optim:
  momentum_reference_batch: 34816  # derived: 2176 x 16; the rule m(B) itself is rebuilt
"""


def test_a_mark_holds_for_all_values_of_its_line_but_the_one_it_excepts() -> None:
    marks = marks_in(TEXT)
    assert marks["recipe.workers"] == "paper"
    assert (marks["recipe.grid.vertical"], marks["recipe.grid.horizontal"]) == ("rebuilt", "rebuilt")
    assert marks["recipe.stages.0.start_epoch"] == "paper"
    assert (marks["recipe.stages.1.start_epoch"], marks["recipe.stages.1.per_worker_batch"]) == ("rebuilt", "derived")
    assert marks["recipe.system"] == "log"
    assert marks["optim.momentum_reference_batch"] == "derived"


def test_a_value_without_a_mark_is_taken_for_rebuilt_unless_the_line_above_has_one() -> None:
    marks = marks_in(TEXT)
    assert (marks["recipe.epochs"], marks["recipe.images"]) == ("rebuilt", "paper")


@pytest.mark.parametrize(
    ("comment", "mark"),
    [
        ("paper? not sure, rebuilt", "rebuilt"),
        ("paper, or of its log", "log"),
        ("log: what the paper says", "log"),
        ("derived; the rule itself is rebuilt", "derived"),
        ("papers differ", "rebuilt"),
    ],
)
def test_of_two_marks_in_a_comment_the_less_sure_holds(comment: str, mark: str) -> None:
    assert marks_in(f"epochs: 90  # {comment}\n") == {"epochs": mark}


def test_what_follows_by_arithmetic_is_as_sure_as_the_least_sure_of_its_parts() -> None:
    assert least_sure("paper", "paper") == "derived"
    assert least_sure("paper", "log", "rebuilt") == "rebuilt"


def test_what_a_file_leaves_to_others_has_their_marks(tmp_path: Path) -> None:
    (tmp_path / "_base.yaml").write_text("recipe:\n  epochs: 90  # paper\n  images: 5  # paper\n")
    (tmp_path / "own.yaml").write_text(
        "defaults:\n  - _base\n  - _self_\n  - override /model: resnet50\nrecipe:\n  epochs: 80  # rebuilt\n"
    )
    marks = marks_of("own", tmp_path)
    assert (marks["recipe.epochs"], marks["recipe.images"]) == ("rebuilt", "paper")


@pytest.mark.parametrize(
    ("experiment", "expected"),
    [  # the table of papers.md: bold cells are the paper's, or derived from it
        ("exp2", {"recipe.workers": "paper", "recipe.stages.1.per_worker_batch": "paper"}),
        ("exp5", {"recipe.workers": "paper", "recipe.stages.2.per_worker_batch": "derived"}),
        ("exp3", {"recipe.workers": "rebuilt", "recipe.stages.1.per_worker_batch": "rebuilt"}),
        ("flash", {"recipe.workers": "paper", "recipe.grid.vertical": "rebuilt"}),
    ],
)
def test_the_papers_cells_have_their_marks(repository: Path, experiment: str, expected: dict[str, str]) -> None:
    marks = marks_of(experiment, repository / "conf" / "exp")
    assert {key: marks[key] for key in expected} == expected
    assert (marks["optim.coefficient"], marks["optim.lr"]) == ("paper", "rebuilt")  # of _mikami.yaml
