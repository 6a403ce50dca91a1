"""The run folder fails in mid-run: full, read-only or gone. One line says so, and the last good checkpoint stays."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.run_processes import of_rank, of_script, processes
from pipeline.run_folder import RunFolder
from tests.faults import mounts as mounting
from tests.faults.mounts import Mounts
from tests.faults.runs import exit_code, go_on, has_begun, leaves_nothing, script_of, send, strike, wait_until

lacking = mounting.missing()
pytestmark = pytest.mark.skipif(bool(lacking), reason=f"nothing can be mounted here: {lacking}")

SIZE_BYTES = 16 * 2**20


@pytest.fixture
def mounts() -> Iterator[Mounts]:
    with Mounts() as found:
        yield found


def test_a_disk_that_is_full_when_a_checkpoint_is_written(repository: Path, tmp_path: Path, mounts: Mounts) -> None:
    folder, seen = RunFolder(tmp_path / "run"), RunFolder(mounts.path(tmp_path) / "run")
    mounts.small(tmp_path, SIZE_BYTES)
    struck = strike(repository, folder, lambda: mounts.fill(tmp_path), inside=mounts.command, seen=seen)
    assert "cannot be written: No space left on device" in struck.line
    assert exit_code(seen) == 1
    leaves_nothing(folder, seen)
    mounts.run("rm", str(tmp_path / "filler"))
    struck.row("the disk full while a checkpoint is written", go_on(repository, folder, mounts.command, seen))


@pytest.mark.long
def test_a_disk_that_is_full_when_nothing_but_records_is_written(
    repository: Path, tmp_path: Path, mounts: Mounts
) -> None:
    folder, seen = RunFolder(tmp_path / "run"), RunFolder(mounts.path(tmp_path) / "run")
    mounts.small(tmp_path, SIZE_BYTES)
    struck = strike(
        repository, folder, lambda: mounts.fill(tmp_path), "run.checkpoint_every_updates=1000", "run.log_every_s=0.01",
        inside=mounts.command, seen=seen, when=lambda: has_begun(seen),
    )  # fmt: skip
    assert "cannot be written: No space left on device" in struck.line
    assert exit_code(seen) == 1
    leaves_nothing(folder, seen)
    mounts.run("rm", str(tmp_path / "filler"))
    struck.row("the disk full while records are written", go_on(repository, folder, mounts.command, seen))


@pytest.mark.long
def test_a_run_folder_that_is_read_only_from_now_on(repository: Path, tmp_path: Path, mounts: Mounts) -> None:
    folder, seen = RunFolder(tmp_path / "run"), RunFolder(mounts.path(tmp_path) / "run")
    struck = strike(repository, folder, lambda: mounts.make_read_only(folder.path), inside=mounts.command, seen=seen)
    assert "cannot be written: Read-only file system" in struck.line
    leaves_nothing(folder, seen)
    assert exit_code(folder) is None  # nothing can be written: status says "lost", the line stands in job.log
    struck.row("the run folder read-only", go_on(repository, folder))  # where it can be written


def test_a_run_folder_that_is_gone(repository: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    script: list[int] = []

    def remove() -> None:
        script.append(script_of(folder))
        folder.path.rename(tmp_path / "elsewhere")
        shutil.rmtree(tmp_path / "elsewhere")

    struck = strike(repository, folder, remove)
    assert struck.line == f"error: the run folder {folder.path} is gone; mpirun ended with code 1"
    wait_until(lambda: processes(folder) == [])
    assert not list(Path("/dev/shm").glob(f"torus224-mpi-{os.getuid()}-{script[0]}"))
    assert not folder.path.exists(), "nobody makes half of it again"
    struck.row("the run folder gone", "nothing is left to start from")


@pytest.mark.long
def test_a_second_request_to_end_while_a_checkpoint_is_written(repository: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    large = ["model=resnet50", "run.checkpoint_every_updates=2", "run.agree_every_updates=1"]  # 200 MB a checkpoint

    def end_amid_saving() -> None:
        wait_until(lambda: not scraps(folder))
        send(signal.SIGUSR2, of_script(folder))
        wait_until(lambda: bool(scraps(folder)), every_s=0.002)
        send(signal.SIGSTOP, of_rank(folder, 0))  # amid it, however quick the disk
        send(signal.SIGTERM, of_script(folder))

    struck = strike(repository, folder, end_amid_saving, *large)
    assert struck.line.startswith("error: ended from outside (TERM)")
    assert exit_code(folder) == 128 + signal.SIGTERM
    leaves_nothing(folder)
    assert scraps(folder)
    struck.row("TERM while a checkpoint is written on request", go_on(repository, folder))
    assert not scraps(folder)


def scraps(folder: RunFolder) -> list[Path]:
    """What is being written, or was when its writer ended."""
    return list(folder.checkpoints.glob(".update-*.pt.[0-9]*"))
