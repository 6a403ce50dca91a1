"""A finding is a line; a program that is asked always comes back."""

import time
from pathlib import Path

import pytest

from jobs.doctor.finding import Finding, ask
from pipeline.errors import UserError
from tests.jobs.doctor.conftest import StandIn


def test_a_finding_says_what_was_found_what_was_needed_and_how_to_mend() -> None:
    finding = Finding("image", "FAIL", "no a.sif", "an image", "build it", table=["a row"])
    assert str(finding) == "FAIL  image: found no a.sif; needed an image; build it\n      a row"
    assert str(Finding("image", "skip", "container=none")) == "skip  image: container=none"


def test_a_program_that_does_not_answer_is_ended_with_all_it_has_started(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in("stuck", f"sleep 60 & echo $! > {tmp_path}/child; wait")
    began = time.monotonic()
    with pytest.raises(UserError, match=r"stuck did not answer within 0\.5 s"):
        ask(["stuck"], timeout_s=0.5)
    assert time.monotonic() - began < 30
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    while child.exists() and child.read_text().split()[2] != "Z":  # the kernel may take an instant
        assert time.monotonic() - began < 30
        time.sleep(0.02)


def test_modules_are_loaded_before_a_program_is_asked(stand_in: StandIn) -> None:
    stand_in("module", 'echo "loading $2"')
    assert ask(["echo", "a b"], modules=["mpi/4"]).splitlines() == ["loading mpi/4", "a b"]
    stand_in("module", "exit 1")
    with pytest.raises(UserError, match="module load mpi/4 failed"):
        ask(["echo"], modules=["mpi/4"])
