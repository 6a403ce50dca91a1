"""A worker of a real run is stopped or killed: one line names it and the phase, and nothing of the run stays behind."""

import re
import signal
import subprocess
from pathlib import Path

import pytest

from bench.run_processes import of_mpirun, of_rank, of_script, processes
from jobs.state import find_out
from pipeline.run_folder import RunFolder
from tests.faults.runs import exit_code, go_on, has_begun, leaves_nothing, send, strike, wait_until
from tests.faults.table import Row, note
from tests.jobs.test_make import make, the_error

SILENT = r"rank {} \(on \S+\) does not answer: last heard of in update \d+, .*; rank \d was in update \d+, "
KILLED = (
    r"rank {} \(process \d+ on \S+\) was ended by signal 9; rank \d: update \d+, .*; go on with: make train RESUME="
)

LOST = {
    "stopped": (4, 2, signal.SIGSTOP, r"rank \d: " + SILENT.format(2)),
    "stopped, and the first": (4, 0, signal.SIGSTOP, r"rank \d: " + SILENT.format(0)),
    "killed": (2, 1, signal.SIGKILL, KILLED.format(1)),
}
"""Workers, the rank, what befalls it, and what is printed."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param("stopped", marks=pytest.mark.long),
        "killed",
        pytest.param("stopped, and the first", marks=pytest.mark.long),
    ],
)
def test_a_lost_worker_is_named_and_nothing_of_the_run_stays(repository: Path, tmp_path: Path, case: str) -> None:
    workers, rank, number, expected = LOST[case]
    folder = RunFolder(tmp_path / "run")
    struck = strike(repository, folder, lambda: send(number, of_rank(folder, rank)), workers=workers)
    assert re.match(f"error: {expected}", struck.line)
    assert exit_code(folder) not in (None, 0, 85)
    assert f"rank {rank} (" in find_out(folder, None).why  # as make status has it
    leaves_nothing(folder)
    struck.row(f"a rank {case}", go_on(repository, folder) if case != "stopped" else "as where it is the first")


@pytest.mark.long
def test_a_killed_job_script_takes_mpirun_and_its_workers_with_it(repository: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    struck = strike(repository, folder, lambda: send(signal.SIGKILL, of_script(folder)), workers=2)
    assert struck.line.startswith("error: the job script was ended by signal 9")
    wait_until(lambda: processes(folder) == [])
    assert exit_code(folder) is None  # nobody was left to write it: status says "lost"
    struck.row("the job script killed", go_on(repository, folder))
    leaves_nothing(folder)


@pytest.mark.long
def test_a_killed_mpirun_takes_its_workers_with_it(repository: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    struck = strike(repository, folder, lambda: send(signal.SIGKILL, of_mpirun(folder)), workers=2)
    assert struck.line.startswith("error: mpirun was ended by signal 9")
    assert exit_code(folder) == 128 + signal.SIGKILL
    leaves_nothing(folder)
    struck.row("the MPI world broken up: mpirun killed", go_on(repository, folder))


def test_a_second_job_on_a_living_run_is_refused_and_does_not_disturb_it(repository: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    refused: list[subprocess.CompletedProcess[str]] = []

    def resume() -> None:
        refused.append(make(repository, "train", f"RESUME={folder.path}"))
        refused.append(subprocess.run(["bash", str(folder.script)], check=False, capture_output=True, text=True))
        send(signal.SIGUSR2, of_script(folder))

    struck = strike(repository, folder, resume, when=lambda: has_begun(folder))
    line = the_error(refused[0])
    assert line == f"error: {folder.path} is running; wait for its end, or stop it before it goes on elsewhere"
    assert refused[1].returncode == 1  # two that passed the first look: the script's own lock
    assert f"{folder.path} is running already" in folder.job_log.read_text()
    assert [one.name for one in folder.attempts.iterdir()] == ["0"]
    assert exit_code(folder) == 85
    assert "go on with: make train RESUME=" in struck.done.stdout
    note(Row("a second job on a living run's folder", line, None, 0, "the first goes on undisturbed"))
