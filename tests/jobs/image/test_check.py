"""What `make image-test` makes of what ranks said, and of an image that is not there."""

import subprocess
from pathlib import Path

import pytest

from jobs.image.check import judge_ranks, main
from pipeline.errors import UserError

ONE = "Open MPI v5.0.11, launched by Open MPI 5.0.11;"


def said(output: str, errors: str = "", code: int = 0) -> "subprocess.CompletedProcess[str]":
    return subprocess.CompletedProcess([], code, output, errors)


def test_ranks_that_met_are_one_world_however_a_launcher_mixes_their_lines() -> None:
    mixed = f"rank 2 of 4, {ONE}rank 0 of 4, {ONE}\n\nrank 3 of 4, {ONE}\nrank 1 of 4, {ONE}"
    finding = judge_ranks("ranks", said(mixed), "mpirun (Open MPI) 5.0.11")
    assert (finding.level, finding.found) == ("ok", f"mpirun (Open MPI) 5.0.11; {ONE} one world")


@pytest.mark.parametrize(
    ("output", "code"),
    [(f"rank 0 of 1, {ONE}\n" * 4, 0), (f"rank 0 of 4, {ONE}\n", 0), ("", 0), (f"rank 0 of 4, {ONE}\n" * 4, 0)],
)
def test_worlds_of_one_and_ranks_that_are_absent_are_failures(output: str, code: int) -> None:
    assert judge_ranks("ranks", said(output, code=code), "").level == "FAIL"


def test_the_ranks_own_line_is_told_before_the_launchers_words() -> None:
    finding = judge_ranks("ranks", said("", "prterun detected\nerror: MPI sees a world of one\n", 1), "")
    assert finding.found == "error: MPI sees a world of one"


def test_an_image_that_is_not_there_is_told_with_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such image; `make sif` makes one"):
        main(["--sif", str(tmp_path / "none.sif")])
