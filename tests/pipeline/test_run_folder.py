"""The run folder: private, never taken twice, and the cause of a failure comes first."""

import errno
import fcntl
import json
import os
import stat
from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.run_folder import RunFolder, write_atomically, write_error


def test_it_is_private_and_never_taken_twice(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "a" / "run")
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    with pytest.raises(UserError, match=r"exists already; name another, or go on with it by RESUME="):
        RunFolder.create(tmp_path / "a" / "run")


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277])
def test_all_that_it_is_made_of_is_its_owners_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = RunFolder.create(tmp_path / "run")
    finally:
        os.umask(before)
    made = (folder.path, folder.log, folder.checkpoints, folder.attempts)
    assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o700] * 4


def test_an_unnamed_run_takes_the_next_free_name(tmp_path: Path) -> None:
    names = [RunFolder.create(tmp_path / "run", rename=True).path.name for _ in range(3)]
    assert names == ["run", "run-2", "run-3"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be made: (File exists|Not a directory)"):
        RunFolder.create(tmp_path / "file" / "run")


def test_what_is_no_run_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such run folder"):
        RunFolder.open(tmp_path / "absent")
    with pytest.raises(UserError, match="so it is not a run folder"):
        RunFolder.open(tmp_path)


def test_checkpoints_are_listed_by_update(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    for update in (500, 1_000_000, 1000):
        folder.checkpoint(update).write_text("")
    folder.model.write_text("")
    assert folder.saved_updates() == [500, 1000, 1_000_000]


def test_the_newest_attempt_is_the_highest_number(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    assert folder.latest_attempt() is None
    for number in (9, 10, 2):
        (folder.attempts / str(number)).mkdir()
    assert folder.latest_attempt() == folder.attempts / "10"


def test_the_cause_comes_before_what_failed_because_of_it(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    attempt = folder.attempts / "0"
    attempt.mkdir()
    write_error(attempt, 0, "rank 0: connection closed", "fault")
    write_error(attempt, 3, "rank 3: later", "mistake")
    write_error(attempt, 2, "rank 2: the image is bad", "mistake")
    for name, time in (("rank-0.fault", 1), ("rank-3", 3), ("rank-2", 2)):
        os.utime(attempt / "errors" / name, (time, time))
    assert folder.errors() == ["rank 2: the image is bad", "rank 3: later", "rank 0: connection closed"]


def test_a_result_is_whole_or_absent(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    found = {"complete": True, "updates": 2010, "top1": 97.5, "images_per_s": 1700.0}
    assert folder.read_result() is None
    write_atomically(folder.result, json.dumps(found))
    assert folder.read_result() == found
    assert [path.name for path in folder.path.iterdir() if path.is_file()] == ["result.json"]


def test_a_file_that_cannot_be_written_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "report.html", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_two_who_ask_whether_a_run_is_alive_do_not_take_each_other_for_it(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    with_lock = os.open(folder.attempts, os.O_RDONLY)
    fcntl.flock(with_lock, fcntl.LOCK_SH)
    assert not folder.is_running()
    fcntl.flock(with_lock, fcntl.LOCK_EX)  # as its script holds it
    assert folder.is_running()
    os.close(with_lock)
    assert not folder.is_running()


def test_where_a_file_system_has_no_locks_nothing_seems_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert not RunFolder.create(tmp_path / "run").is_running()


def test_a_torn_line_of_submissions_is_told_and_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.submissions.write_text('{"scheduler": "slurm", "job_')
    with pytest.raises(UserError, match=r"submissions\.jsonl is damaged, so nobody knows the run's job"):
        folder.job_ids()
    folder.note_submission("slurm", ["7", "8"])
    assert folder.job_ids() == ["7", "8"]


def test_two_cannot_submit_one_run_at_once(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.config.touch()
    with (
        folder.submitting(),
        pytest.raises(UserError, match="is being started or submitted by somebody else"),
        folder.submitting(),
    ):
        pass


@pytest.mark.parametrize("job_id", ["--me", "-u", "", "7 8", "$(x)", "../7"])
def test_what_is_no_job_never_reaches_a_schedulers_command(tmp_path: Path, job_id: str) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.note_submission("slurm", ["7", job_id])
    with pytest.raises(UserError, match=r"submissions\.jsonl is damaged, so nobody knows the run's job"):
        folder.job_ids()


@pytest.mark.parametrize("job_id", ["7", "7_1", "7[1].pbs-server.example", "7.1", "7[].pbsn0"])
def test_a_job_is_called_as_slurm_pbs_and_grid_engine_call_it(tmp_path: Path, job_id: str) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.note_submission("slurm", [job_id])
    assert folder.job_ids() == [job_id]


WHOLE = '{"complete": true, "updates": %s, "top1": %s, "images_per_s": 1.0}'


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "3", "null", '{"a": 1}', WHOLE % ("1" + "0" * 400, 75), WHOLE % (7, "1" + "0" * 400),
     WHOLE % (7, '"75.03 %"')],
)  # fmt: skip
def test_a_result_that_is_none_is_damaged(tmp_path: Path, text: str) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.result.write_text(text)
    with pytest.raises(UserError, match=r"result\.json is damaged; remove it, and the run can go on"):
        folder.read_result()
