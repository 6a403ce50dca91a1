"""A run's log: which files, how much of them, and that following ends by itself."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs import command_line, logs
from jobs.logs import follow
from jobs.scheduler import Sighting
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder
from tests.jobs.runs import Answers, add_attempt, make_run


def shown(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert command_line.run(logs.main, arguments) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of job 7, of which the scheduler says that it waits."""
    monkeypatch.setattr(logs, "find", Answers(Sighting("waiting", "PENDING", "Priority")))
    return make_run(tmp_path / "run", jobs=["7"])


def test_the_jobs_log_is_shown_whole_or_its_last_lines(
    submitted: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    add_attempt(submitted, "7", 0)
    submitted.job_log.write_text("one\ntwo\nthree")
    run = str(submitted.path)
    assert shown([run], capsys) == "one\ntwo\nthree"
    assert shown([run, "--lines", "2"], capsys) == "two\nthree"
    assert shown([run, "--lines", "9"], capsys) == "one\ntwo\nthree"


def test_a_log_does_not_command_the_terminal(submitted: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    add_attempt(submitted, "7", 0)
    submitted.job_log.write_bytes("a\tbär\r\n\x1b]0;title\x07\x9b2J\x7f".encode())
    lost = "\N{REPLACEMENT CHARACTER}"
    assert shown([str(submitted.path)], capsys) == f"a\tbär\r\n{lost}]0;title{lost}{lost}2J{lost}"


def test_where_the_script_never_began_the_schedulers_log_is_shown(
    submitted: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (submitted.log / "scheduler.log").write_text("slurmstepd: no such user\n")
    assert shown([str(submitted.path)], capsys) == "slurmstepd: no such user\n"


def test_a_rank_has_a_log_of_its_own(submitted: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in (0, 1):
        submitted.rank_log(rank).write_text(f"I am {rank}\n")
    assert shown([str(submitted.path), "--rank", "1"], capsys) == "I am 1\n"
    error = shown([str(submitted.path), "--rank", "3"], capsys, code=1)
    assert error == f"error: {submitted} has no log of rank 3; its ranks are 0 to 1\n"


def test_of_a_run_on_this_machine_the_first_ranks_log_and_mpiruns_words_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "run", ["exp=exp5"])
    folder.rank_log(0).write_text("update 10\n")
    folder.job_log.write_text("mpirun: rank 1 was killed\n")
    assert shown([str(folder.path)], capsys) == "update 10\nmpirun: rank 1 was killed\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "has nothing in scheduler.log or job.log (waiting: to start: Priority)"),
        (["--lines", "-1"], "--lines -1: must be at least 0"),
        (["--rank", "x"], "argument --rank: invalid int value: 'x'; make logs RUN=… --help tells more"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    submitted: RunFolder, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    error = shown([str(submitted.path), *words], capsys, code=1)
    assert error.startswith("error: ")
    assert expected in error
    assert error.count("\n") == 1


def steps(*acts: Callable[[], object]) -> Callable[[float], None]:
    """A stand-in for sleep: what happens in each wait."""
    left = list(acts)

    def sleep(_: float) -> None:
        left.pop(0)()  # a wait too many raises

    return sleep


def test_following_goes_over_a_new_attempt_and_ends_with_the_run(
    submitted: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "ASK_EVERY_S", logs.LOOK_EVERY_S)
    log = submitted.job_log.open("a", buffering=1)
    add_attempt(submitted, "7", 85)
    log.write("1\n2\n3\n")
    acts = [
        lambda: log.write("attempt 1\n") and add_attempt(submitted, "7"),
        lambda: log.write("half"),
        lambda: log.write(" a line\n") and (submitted.attempts / "1" / "exit").write_text("0\n"),
    ]
    out = io.StringIO()
    state = follow(submitted, [submitted.job_log], 2, out, sleep=steps(*acts))
    assert state.word == "done"
    assert out.getvalue() == "2\n3\nattempt 1\nhalf a line\n"


def test_a_scheduler_is_asked_far_less_often_than_the_file(
    submitted: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers(Sighting("running", "RUNNING"))
    monkeypatch.setattr(logs, "find", answers)
    attempt = add_attempt(submitted, "7")
    waits = [lambda: None] * 59 + [lambda: (attempt / "exit").write_text("0\n")]
    follow(submitted, [submitted.job_log], 0, io.StringIO(), sleep=steps(*waits))
    assert len(answers.asked) == 2  # at second 0 and 30; at 60 the exit code says all


def test_a_log_written_anew_is_shown_from_its_start(submitted: RunFolder) -> None:
    submitted.job_log.write_text("a long line\n")
    tail, out = logs.Tail(submitted.job_log, 0), io.StringIO()
    assert not tail.copy(out)
    submitted.job_log.write_text("anew\n")
    assert tail.copy(out)
    assert out.getvalue() == "anew\n"


def test_half_a_letter_is_not_shown_as_two(submitted: RunFolder) -> None:
    word = "é".encode()
    submitted.job_log.write_bytes(word[:1])
    tail, out = logs.Tail(submitted.job_log, None), io.StringIO()
    tail.copy(out)
    submitted.job_log.write_bytes(word)
    tail.copy(out)
    assert out.getvalue() == "é"


def test_a_run_that_nobody_started_is_not_followed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ["exp=exp5"])
    with pytest.raises(UserError, match="was never started"):
        follow(folder, [folder.job_log], 0, io.StringIO(), sleep=steps())


@pytest.mark.parametrize("how", ["Ctrl-C", "a reader that goes"])
def test_it_ends_quietly(tmp_path: Path, repository: Path, how: str) -> None:
    folder = make_run(tmp_path / "run", jobs=["7"])
    stand_in = tmp_path / "bin" / "squeue"
    stand_in.parent.mkdir()
    stand_in.write_text("#!/bin/sh\necho 'RUNNING|None'\n")
    stand_in.chmod(0o700)
    add_attempt(folder, "7")
    folder.job_log.write_text("hello\n")
    environment = os.environ | {"PATH": f"{stand_in.parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "jobs.logs", str(folder.path), "--follow"]
    with subprocess.Popen(
        command, cwd=repository, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "hello\n"
        if how == "Ctrl-C":
            process.send_signal(signal.SIGINT)
        else:
            process.stdout.close()
            with folder.job_log.open("a") as log:
                while process.poll() is None:
                    log.write("more\n" * 100)
                    log.flush()
                    time.sleep(0.05)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""
