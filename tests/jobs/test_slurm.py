"""SLURM's words, as squeue, sacct and sbatch of 22.05 print them."""

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from jobs import slurm
from jobs.scheduler import Sighting, words
from pipeline.errors import UserError

SCHEDULER = slurm.SCHEDULER


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("PENDING", "Resources", Sighting("waiting", "PENDING", "Resources")),
        ("PENDING", "PartitionTimeLimit", Sighting("waiting", "PENDING", "PartitionTimeLimit", never=True)),
        ("PENDING", "DependencyNeverSatisfied", Sighting("waiting", "PENDING", "DependencyNeverSatisfied", never=True)),
        ("PENDING", "JobHeldUser", Sighting("waiting", "PENDING", "JobHeldUser", never=True)),
        ("REQUEUED", "BeginTime", Sighting("waiting", "REQUEUED", "BeginTime")),
        ("RUNNING", "", Sighting("running", "RUNNING")),
        ("COMPLETING", "", Sighting("running", "COMPLETING")),
        ("COMPLETED", "", Sighting("ended", "COMPLETED")),
        ("FAILED", "NonZeroExitCode", Sighting("ended", "FAILED")),
        ("TIMEOUT", "TimeLimit", Sighting("ended", "TIMEOUT", "TimeLimit")),
        ("CANCELLED by 1000", "", Sighting("ended", "CANCELLED")),
        ("NODE_FAIL", "", Sighting("ended", "NODE_FAIL")),
        ("PREEMPTED", "", Sighting("ended", "PREEMPTED")),
        ("OUT_OF_MEMORY", "", Sighting("ended", "OUT_OF_MEMORY")),
    ],
)
def test_each_state_is_read_as_it_is_meant(state: str, reason: str, expected: Sighting) -> None:
    assert slurm.sighting(state, reason) == expected


@pytest.mark.parametrize(("printed", "job_id"), [("17\n", "17"), ("17;cluster\n", "17"), ("warning: x\n18\n", "18")])
def test_the_id_is_what_sbatch_prints(printed: str, job_id: str) -> None:
    assert SCHEDULER.read_job_id(printed) == job_id


def test_without_an_id_it_is_an_error_with_what_was_printed() -> None:
    with pytest.raises(UserError, match="sbatch printed no job id: Submitted nothing"):
        SCHEDULER.read_job_id("Submitted nothing\n")


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is looked through before all others."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def put(folder: Path, name: str, lines: str) -> None:
    (folder / name).write_text(f"#!/bin/bash\n{lines}\n")
    (folder / name).chmod(0o755)


UNKNOWN = 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1'


def test_a_job_that_squeue_forgot_is_looked_up_in_the_books(commands: Path) -> None:
    put(commands, "squeue", UNKNOWN)
    put(commands, "sacct", 'echo "FAILED|3:0"')
    assert SCHEDULER.ask("7") == Sighting("ended", "FAILED", "exit code 3")


def test_without_books_a_forgotten_job_is_absent_and_not_running(commands: Path) -> None:
    put(commands, "squeue", UNKNOWN)
    put(commands, "sacct", 'echo "Slurm accounting storage is disabled" >&2; exit 1')
    assert SCHEDULER.ask("7") == Sighting("absent")


def test_a_controller_that_does_not_answer_leaves_the_state_open(commands: Path) -> None:
    put(commands, "squeue", 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1')
    put(commands, "sacct", 'echo "COMPLETED|0:0"')
    found = SCHEDULER.ask("7")
    assert (found.phase, "Unable to contact slurm controller" in found.reason) == ("unanswered", True)


def test_without_its_commands_the_state_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = SCHEDULER.ask("7")
    assert (found.phase, found.reason) == ("unanswered", "squeue not found; log in to the cluster, or load its module")


@pytest.mark.parametrize("printed", ["rubbish line", "\\xff\\xfe", "NOSUCHSTATE|None"])
def test_an_answer_that_is_none_leaves_the_state_open(commands: Path, printed: str) -> None:
    put(commands, "squeue", f"printf '{printed}\\n'")
    assert SCHEDULER.ask("7").phase == "unanswered"


def test_a_sites_own_lines_around_the_answer_are_passed_over(commands: Path) -> None:
    put(commands, "squeue", "echo 'Welcome to the cluster'; echo 'RUNNING|None'")
    assert SCHEDULER.ask("7") == Sighting("running", "RUNNING")


def test_of_a_long_complaint_the_first_line_that_tells_something_is_kept() -> None:
    said = "Connection refused\nsqueue: error: fetch_config: DNS SRV lookup failed\nsqueue: fatal: no source\n"
    assert words(CompletedProcess([], 1, "", said)) == "squeue: error: fetch_config: DNS SRV lookup failed"
    assert len(words(CompletedProcess([], 1, "", "squeue: error " * 99))) <= 202
