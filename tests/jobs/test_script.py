"""The job script, run by a real bash with stand-ins for mpirun."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs.script import quote, render
from pipeline.run_folder import RunFolder


def script(folder: RunFolder, launch: list[str], *, start_timeout_s: int = 600, end_timeout_s: int = 60) -> Path:
    text = render(
        folder=folder,
        repository=Path.cwd(),
        launch=launch,
        threads=1,
        title="a test",
        start_timeout_s=start_timeout_s,
        end_timeout_s=end_timeout_s,
    )
    folder.script.write_text(text)
    return folder.script


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "a run's $HOME; `folder`")


Start = Callable[[Path], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a script in a session of its own; whatever is left of it when the test ends is ended."""
    started: list[subprocess.Popen[bytes]] = []

    def run(path: Path) -> "subprocess.Popen[bytes]":
        started.append(subprocess.Popen(["bash", str(path)], start_new_session=True))
        return started[-1]

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ranks_that_are_done(folder: RunFolder, words: str = "") -> list[str]:
    """A launcher of ranks that end as they should. words: shell, to be run before."""
    newest = f"$(ls -d {quote([folder.attempts])}/* | sort -V | tail -n 1)"
    return ["bash", "-c", f'{words} touch "{newest}/done"']


def last_exit(folder: RunFolder) -> str:
    attempt = folder.latest_attempt()
    assert attempt is not None
    return (attempt / "exit").read_text().strip()


def test_it_is_done_when_the_ranks_are(folder: RunFolder) -> None:
    path = script(folder, ranks_that_are_done(folder))
    assert subprocess.run(["bash", str(path)], check=False).returncode == 0
    assert last_exit(folder) == "0"


def test_a_launchers_success_without_the_ranks_is_none(folder: RunFolder) -> None:
    path = script(folder, ["true"])
    done = subprocess.run(["bash", str(path)], check=False, capture_output=True, text=True)
    assert (done.returncode, last_exit(folder)) == (1, "1")
    assert "the launcher ended with code 0 before the ranks were done" in done.stderr


def test_a_launcher_that_fails_without_a_word_is_spoken_for(folder: RunFolder) -> None:
    words = "the launcher ended with code 3 before the ranks were ready, without a word"
    with folder.job_log.open("ab") as log:  # as the local launcher starts it
        subprocess.run(["bash", str(script(folder, ["bash", "-c", "exit 3"]))], stderr=log, check=False)
        assert folder.last_words(folder.job_log) == words
        subprocess.run(["bash", str(script(folder, ["bash", "-c", "echo why >&2; exit 3"]))], stderr=log, check=False)
        assert folder.last_words(folder.job_log) == "why"


@pytest.mark.parametrize("code", [1, 85, 137])
def test_it_writes_and_returns_the_launchers_code(folder: RunFolder, code: int) -> None:
    path = script(folder, ["bash", "-c", f"exit {code}"])
    assert subprocess.run(["bash", str(path)], check=False).returncode == code
    assert last_exit(folder) == str(code)


def test_every_start_is_an_attempt_of_its_own(folder: RunFolder) -> None:
    path = script(folder, ranks_that_are_done(folder))
    for _ in range(3):
        subprocess.run(["bash", str(path)], check=True)
    assert sorted(one.name for one in folder.attempts.iterdir()) == ["0", "1", "2"]


def test_hostile_words_reach_the_launcher_as_they_are(folder: RunFolder) -> None:
    words = ["$(touch bad)", "`id`", "a b", "'quoted'", '"double"', "back\\slash", "new\nline", "*", ";exit 3", "é"]
    path = script(folder, ["printf", "%s\\0", *words])
    done = subprocess.run(["bash", str(path)], check=False, capture_output=True)
    assert done.stdout.decode().split("\0")[:-1] == words


def test_usr2_reaches_the_launcher_and_its_code_comes_back(folder: RunFolder, start: Start) -> None:
    launcher = "trap 'exit 85' USR2; touch \"$1\"; while :; do sleep 0.05; done"
    ready = folder.attempts / "0" / "ready"
    path = script(folder, ["bash", "-c", launcher, "launcher", str(ready)])
    process = start(path)
    wait_for(ready)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(10) == 85
    assert last_exit(folder) == "85"


def test_a_request_before_the_ranks_are_ready_is_noted_for_them(folder: RunFolder, start: Start) -> None:
    started, noted = folder.path / "started", folder.attempts / "0" / "stop"
    launcher = 'touch "$1"; while [ ! -e "$2" ]; do sleep 0.05; done; exit 85'
    path = script(folder, ["bash", "-c", launcher, "launcher", str(started), str(noted)])
    process = start(path)
    wait_for(started)
    process.send_signal(signal.SIGUSR2)  # unhandled by the launcher, which it would end
    assert process.wait(10) == 85


def test_a_second_start_of_a_living_run_is_refused(folder: RunFolder, start: Start) -> None:
    started = folder.path / "started"
    path = script(folder, ["bash", "-c", 'touch "$1"; exec sleep 60', "launcher", str(started)])
    with start(path) as first:
        wait_for(started)
        assert folder.is_running()
        assert subprocess.run(["bash", str(path)], check=False).returncode == 1
        assert [one.name for one in folder.attempts.iterdir()] == ["0"]
        first.terminate()
    assert not folder.is_running()


def test_a_second_signal_does_not_lose_the_code(folder: RunFolder, start: Start) -> None:
    launcher = "trap 'sleep 0.3; exit 85' USR2; touch \"$1\"; while :; do sleep 0.05; done"
    ready = folder.attempts / "0" / "ready"
    path = script(folder, ["bash", "-c", launcher, "launcher", str(ready)])
    process = start(path)
    wait_for(ready)
    for _ in range(3):
        process.send_signal(signal.SIGUSR2)
        time.sleep(0.05)
    assert process.wait(10) == 85


def test_term_ends_the_launcher(folder: RunFolder, start: Start) -> None:
    ready = folder.attempts / "0" / "ready"
    path = script(folder, ["bash", "-c", 'touch "$1"; exec sleep 60', "launcher", str(ready)])
    process = start(path)
    wait_for(ready)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGTERM
    assert last_exit(folder) == str(128 + signal.SIGTERM)


@pytest.mark.parametrize(
    "launcher", ["exec sleep 60", pytest.param("trap '' TERM; while :; do sleep 1; done", marks=pytest.mark.long)]
)
def test_a_start_that_takes_too_long_is_ended_and_told(folder: RunFolder, launcher: str) -> None:
    path = script(folder, ["bash", "-c", launcher], start_timeout_s=1)
    assert subprocess.run(["bash", str(path)], check=False, timeout=40).returncode > 128
    assert folder.errors() == ["start-up took longer than 1 s: no rank began; site.start_timeout_s allows longer"]


def test_a_run_that_is_ready_may_take_as_long_as_it_likes(folder: RunFolder) -> None:
    ready = folder.attempts / "0" / "ready"
    path = script(folder, ranks_that_are_done(folder, f"touch {quote([ready])}; sleep 2.5;"), start_timeout_s=1)
    assert subprocess.run(["bash", str(path)], check=False).returncode == 0


def test_a_launcher_that_outlives_its_ranks_is_ended(folder: RunFolder) -> None:
    words = f"mkdir {quote([folder.attempts])}/0/errors; exec sleep 60"
    path = script(folder, ["bash", "-c", words], end_timeout_s=1)
    assert subprocess.run(["bash", str(path)], check=False, timeout=40).returncode == 1
    assert last_exit(folder) == "1"
    assert (folder.attempts / "0" / "stuck").exists()


def test_its_syntax_is_right_and_it_never_uses_usr1(folder: RunFolder) -> None:
    path = script(folder, ["true"])
    subprocess.run(["bash", "-n", str(path)], check=True)
    assert "USR1" not in path.read_text()


def test_quote_round_trips_through_a_shell() -> None:
    words = ["a b", "$x", "", "'"]
    shown = subprocess.run(["bash", "-c", f"printf '%s\\0' {quote(words)}"], check=True, capture_output=True)
    assert shown.stdout.decode().split("\0")[:-1] == words


def wait_for(path: Path) -> None:
    for _ in range(200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} never came")
