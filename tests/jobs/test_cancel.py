"""Cancelling: marked first, every job of the newest submission, and nobody else's process."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import cancel, command_line
from jobs.script import render
from pipeline.run_folder import RunFolder
from tests.jobs.runs import add_attempt, make_run

SCANCEL = """#!/bin/sh
for word; do id=$word; done
[ -e {run}/cancelled ] && echo "$id" >> {told}
case " {unknown} " in *" $id "*) echo "scancel: error: Invalid job id $id" >&2; exit 1 ;; esac
case " {refused} " in *" $id "*) echo "scancel: error: Access denied for job $id" >&2; exit 1 ;; esac
{more}
"""

SQUEUE = """#!/bin/sh
for word; do id=${{word#--jobs=}}; done
case " {unknown} " in *" $id "*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;; esac
echo '{state}|None'
"""


class Slurm:
    """Stand-ins for SLURM's commands, first in PATH."""

    def __init__(self, tmp_path: Path) -> None:
        self._bin, self._told = tmp_path / "bin", tmp_path / "told"
        self._bin.mkdir()

    def set_up(
        self, folder: RunFolder, *, unknown: str = "", refused: str = "", state: str = "RUNNING", more: str = ""
    ) -> None:
        """unknown, refused: ids that it does not know or does not cancel. more: what scancel does beside."""
        words = {"unknown": unknown, "run": folder.path, "told": self._told, "refused": refused, "state": state}
        for name, text in {"scancel": SCANCEL, "squeue": SQUEUE, "sacct": "#!/bin/sh\nexit 1\n"}.items():
            (self._bin / name).write_text(text.format(**words, more=more))
            (self._bin / name).chmod(0o700)

    def told(self) -> list[str]:
        """The ids that it was told to cancel while the run was marked as cancelled."""
        return self._told.read_text().split() if self._told.exists() else []


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    found = Slurm(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return found


def said(capsys: pytest.CaptureFixture[str], *folders: RunFolder, code: int = 0) -> str:
    assert command_line.run(cancel.main, [str(folder.path) for folder in folders]) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err if code else captured.out


def test_a_chain_is_cancelled_whole_its_last_job_first(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "run", jobs=["7", "8", "9"])
    slurm.set_up(folder)
    assert said(capsys, folder).splitlines() == [f"{folder}: job {number} cancelled" for number in (9, 8, 7)]
    assert slurm.told() == ["9", "8", "7"]


def test_only_the_newest_submission_is_cancelled(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "run", jobs=["7"])
    add_attempt(folder, "7", 1)
    folder.note_submission("slurm", ["8"])
    slurm.set_up(folder)
    said(capsys, folder)
    assert slurm.told() == ["8"]


def test_a_job_that_the_script_submits_meanwhile_is_cancelled_too(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "run", jobs=["7"])
    line = '{"scheduler": "slurm", "job_ids": ["8"], "submitted_at": 1}'
    slurm.set_up(folder, more=f"[ $id = 8 ] || echo '{line}' >> {folder.submissions}")
    said(capsys, folder)
    assert slurm.told() == ["7", "8"]


def test_a_job_that_the_scheduler_no_longer_knows_is_no_error(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "run", jobs=["7", "8"])
    slurm.set_up(folder, unknown="7")
    assert said(capsys, folder).splitlines() == [
        f"{folder}: job 8 cancelled",
        f"{folder}: SLURM no longer knows job 7",
    ]


def test_a_refusal_is_told_and_the_other_runs_are_cancelled(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (make_run(tmp_path / name, jobs=[job]) for name, job in (("one", "7"), ("two", "8")))
    slurm.set_up(second, refused="7")
    error = said(capsys, RunFolder(tmp_path / "none"), first, second, code=1)
    assert error.splitlines() == [
        f"error: {tmp_path}/none: no such run folder",
        f"error: {first} is marked as cancelled, but SLURM does not cancel 7: scancel: error: Access denied for job 7",
    ]
    assert slurm.told() == ["8"]


@pytest.mark.parametrize(("code", "word"), [(0, "done"), (1, "failed")])
def test_a_run_that_has_ended_stays_as_it_is(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, word: str
) -> None:
    folder = make_run(tmp_path / "run", jobs=["7"])
    add_attempt(folder, "7", code)
    slurm.set_up(folder)
    assert said(capsys, folder) == f"{folder}: {word} already, so there is nothing to cancel\n"
    assert not folder.cancelled.exists()


def test_without_the_schedulers_commands_it_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_run(tmp_path / "run", jobs=["7"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "scancel not found; log in to the cluster" in said(capsys, folder, code=1)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[RunFolder, "subprocess.Popen[bytes]"]]:
    """A run on this machine, whose launcher only sleeps, and the process of its script."""
    folder = make_run(tmp_path / "run", ["exp=exp5"])
    folder.script.write_text(
        render(folder=folder, repository=Path.cwd(), launch=["sleep", "60"], threads=1, title="a test")
    )
    with subprocess.Popen(["bash", str(folder.script)]) as process:
        for _ in range(200):
            if (folder.attempts / "0" / "job_id").exists() and (folder.attempts / "0" / "job_id").read_text():
                break
            time.sleep(0.05)
        yield folder, process
        process.terminate()


def test_a_run_on_this_machine_is_told_to_end(
    running: tuple[RunFolder, "subprocess.Popen[bytes]"], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, process = running
    assert said(capsys, folder) == f"{folder}: process {process.pid} was told to end (TERM)\n"
    assert process.wait(30) == 128 + 15
    assert said(capsys, folder) == f"{folder}: cancelled already, so there is nothing to cancel\n"


def test_a_process_that_is_not_the_runs_script_is_left_alone(
    running: tuple[RunFolder, "subprocess.Popen[bytes]"], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, process = running
    with subprocess.Popen(["sleep", "60"]) as other:
        (folder.attempts / "0" / "job_id").write_text(f"{other.pid}\n")
        error = said(capsys, folder, code=1)
        assert "no process of this machine is its script; cancel it where it runs" in error
        assert other.poll() is None
        assert process.poll() is None
        other.kill()


def test_a_run_that_never_started_here_has_nothing_to_cancel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "run", ["exp=exp5"])
    assert said(capsys, folder) == f"{folder}: not running, so there is nothing to cancel\n"
