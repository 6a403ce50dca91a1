"""A worker of a real run is stopped or killed: one line names it and the phase, and nothing of the run stays behind."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.run_folder import RunFolder
from tests.jobs.test_make import environment, processes, the_error

TIMEOUT_S = 5


def lose(
    repository: Path, folder: RunFolder, act: Callable[[], None], *, workers: int = 4
) -> "subprocess.CompletedProcess[str]":
    """Start a run, `act` when it is in full swing, and wait for its end."""
    words = f"run.dir={folder.path} allreduce.timeout_s={TIMEOUT_S}"
    command = ["make", "train", "EXP=5", f"WORKERS={workers}", f"ARGS={words}"]
    with subprocess.Popen(
        command, cwd=repository, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: process.poll() is not None or has_begun(folder))
        time.sleep(2 * TIMEOUT_S / 10)  # a beat
        act()
        output, errors = process.communicate(timeout=90)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def has_begun(folder: RunFolder) -> bool:
    return folder.metrics.exists() and folder.metrics.stat().st_size > 0


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("not within a minute")


def process_of(folder: RunFolder, rank: int) -> int:
    """The process that mpirun calls `rank`."""
    word = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    (found,) = [pid for pid in processes(folder) if word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
    return found


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


@pytest.mark.parametrize("case", ["stopped", "killed", pytest.param("stopped, and the first", marks=pytest.mark.long)])
def test_a_lost_worker_is_named_and_nothing_of_the_run_stays(repository: Path, tmp_path: Path, case: str) -> None:
    workers, rank, number, expected = LOST[case]
    folder = RunFolder(tmp_path / "run")
    done = lose(repository, folder, lambda: os.kill(process_of(folder, rank), number), workers=workers)
    assert re.match(f"error: {expected}", the_error(done))
    wait_until(lambda: processes(folder) == [])
    script = (folder.attempts / "0" / "job_id").read_text().strip()
    assert not list(Path("/dev/shm").glob(f"torus224-mpi-*-{script}"))


@pytest.mark.long
def test_a_killed_job_script_takes_mpirun_and_its_workers_with_it(repository: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    done = lose(
        repository, folder, lambda: os.kill(int((folder.attempts / "0" / "job_id").read_text()), signal.SIGKILL)
    )
    assert the_error(done).startswith("error: the job script was ended by signal 9")
    wait_until(lambda: processes(folder) == [])
