"""The table of runs: what a row says, and that no folder and no scheduler ends it."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from jobs import command_line, logs, status
from jobs.scheduler import Sighting
from jobs.status import Row, Schedulers, eta_s, read, read_all, show
from pipeline.config import load, make_plan
from pipeline.run_folder import RunFolder
from tests.jobs.runs import RESULT, SLURM, Answers, add_attempt, add_updates, make_run, no_scheduler

RUNNING = Sighting("running", "RUNNING")


def row_of(folder: RunFolder, seen: Sighting = RUNNING) -> Row:
    return read(folder, Schedulers(Answers(seen)))


def plain(rows: list[Row]) -> list[str]:
    stream = io.StringIO()
    show(rows, Console(file=stream))
    return stream.getvalue().splitlines()


def test_a_running_row_says_where_what_how_far_and_how_long(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", jobs=["7"])
    add_attempt(folder, "7")
    add_updates(folder, {402: 100.0, 412: 110.0})
    folder.validations.write_text('{"update": 370, "top1": 31.25}\n')
    folder.starts.write_text("2\n")
    row = row_of(folder)
    # Left are 698 updates of 34,816 images, 570 of 69,632 and 330 of 121,856, and 34,816 images take a second:
    # 698 + 570 * 2 + 330 * 3.5 = 2,993.
    assert row == Row(str(folder), "exp5", "slurm", 16, 8, "7", "running", 412, 2010, row.eta_s, 31.25, 2)
    assert row.eta_s == pytest.approx(2993.0)
    header, line = plain([row])
    assert header.split("  ")[0].strip() == "run"
    for part in ("16 x 8", "update 412 of 2,010 (20 %)", "0:49:53", "31.25 %", "running"):
        assert part in line


def test_slow_updates_are_counted_and_the_newest_is_told_while_it_runs(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", jobs=["7"])
    add_attempt(folder, "7")
    told = [f"update {update} took 9.00 s, 9.0 times the median: rank 5 (on n1) was the slowest" for update in (5, 8)]
    folder.slow_updates.write_text("".join(json.dumps({"update": 5, "line": line}) + "\n" for line in told) + '{"hal')
    row = row_of(folder)
    assert row.slow == 2
    assert row.why == f"newest slow update: {told[1]}"


def test_the_eta_takes_no_line_of_an_earlier_attempt(tmp_path: Path) -> None:
    plan = make_plan(load(make_run(tmp_path / "run").config))
    lines = [{"update": update, "time_s": time_s} for update, time_s in [(399, 900.0), (400, 901.0), (401, 1.0)]]
    assert eta_s(lines, plan, 410) is None
    lines.append({"update": 403, "time_s": 5.0})
    assert eta_s(lines, plan, 410) == pytest.approx(14.0)  # 7 updates at 2 s
    assert eta_s([], plan, 410) is None


def test_the_eta_is_of_what_the_run_was_asked_for(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", [*SLURM, "run.stop_after_updates=100"], jobs=["7"])
    add_attempt(folder, "7")
    add_updates(folder, {10: 10.0, 20: 20.0})
    assert row_of(folder).eta_s == pytest.approx(80.0)


def test_a_row_of_this_machine_asks_no_scheduler(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ["exp=exp5"])
    add_attempt(folder, "4711", 0)
    folder.result.write_text(json.dumps(RESULT))
    row = read(folder, Schedulers(no_scheduler))
    assert (row.state, row.site, row.nodes, row.workers_per_node, row.top1) == ("done", "local", 1, 4, 96.8)


def test_finished_runs_ask_no_scheduler(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / str(code), jobs=["7"]) for code in (0, 1)]
    for folder in folders:
        attempt = add_attempt(folder, "7", int(folder.path.name))
        (attempt / "errors").mkdir()
        (attempt / "errors" / "host").write_text("module load x failed\n")
    assert [row.state for row in read_all(folders, Schedulers(no_scheduler))] == ["done", "failed"]


def test_a_silent_scheduler_is_asked_once_and_its_rows_say_why(tmp_path: Path) -> None:
    answers = Answers(Sighting("unanswered", reason="squeue not found; log in to the cluster, or load its module"))
    schedulers = Schedulers(answers)
    rows = [read(make_run(tmp_path / str(number), jobs=["7", "8", "9"]), schedulers) for number in range(4)]
    assert {(row.state, row.why) for row in rows} == {
        ("unknown", "squeue not found; log in to the cluster, or load its module")
    }
    assert answers.asked == ["7"]


def test_schedulers_are_asked_side_by_side(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=30)

    class Slow(Answers):
        def ask(self, job_id: str) -> Sighting:
            both.wait()
            return super().ask(job_id)

    folders = [make_run(tmp_path / job, jobs=[job]) for job in ("7", "8")]
    rows = read_all(folders, Schedulers(Slow(Sighting("waiting", "PENDING", "Priority"))))
    assert [row.why for row in rows] == ["to start: Priority"] * 2


def broken(tmp_path: Path) -> dict[str, RunFolder]:
    found = {name: make_run(tmp_path / name, ["exp=exp5"]) for name in ("bare", "yaml", "other", "lacking", "result")}
    found["bare"].config.unlink()
    found["yaml"].config.write_text("seed: [1\n")
    found["other"].config.write_text("sede: 1\n")
    found["lacking"].attempts.rmdir()
    found["result"].result.write_text("{")
    found["gone"] = make_run(tmp_path / "gone", ["exp=exp5"])
    shutil.rmtree(found["gone"].path)
    return found


BROKEN = {
    "bare": "no such file, so its folder is not a run folder",
    "yaml": "config.yaml is damaged",
    "other": "does not fit this version",
    "lacking": "attempts is missing",
    "result": "result.json is damaged",
    "gone": "was removed meanwhile",
}


def test_a_broken_folder_is_a_row_that_says_so_and_the_others_stand(tmp_path: Path) -> None:
    folders = broken(tmp_path)
    good = make_run(tmp_path / "good", ["exp=exp5"])
    rows = read_all([*folders.values(), good], Schedulers(no_scheduler))
    for name, row in zip(BROKEN, rows, strict=False):
        assert BROKEN[name] in row.why, name
    assert rows[-1].experiment == "exp5"
    assert len(plain(rows)) == 8


@pytest.mark.parametrize("more", ['{"update": 13, "ti', "null\n", "[1]\n", '{"epoch": 1}\n'])
def test_half_a_line_of_metrics_is_passed_over_and_told(tmp_path: Path, more: str) -> None:
    folder = make_run(tmp_path / "run", ["exp=exp5"])
    add_attempt(folder, "4711", 1)
    add_updates(folder, {11: 1.0, 12: 2.0}, more)
    row = read(folder, Schedulers(no_scheduler))
    assert row.update == 12
    assert "metrics.jsonl ends in half a line" in row.why


def test_only_the_end_of_a_long_metrics_file_is_read(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ["exp=exp5"])
    folder.metrics.write_bytes(b"\xff" * 1_000_000)  # what is no line at all, were it read
    add_updates(folder, {number: float(number) for number in range(1, 1000)})
    row = read(folder, Schedulers(no_scheduler))
    assert (row.update, row.why) == (999, "")


def test_last_words_of_a_log_reach_no_terminal_as_commands(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ["exp=exp5"])
    add_attempt(folder, "4711", 1)
    folder.job_log.write_text("\x1b[31mbad[/red] [bold\n")
    rows = [read(folder, Schedulers(no_scheduler))]
    assert "\x1b" not in plain(rows)[1]
    stream = io.StringIO()
    show(rows, Console(file=stream, force_terminal=True, width=400))
    assert "bad[/red] [bold" in stream.getvalue()


def test_all_below_runs_are_found_sweeps_too_and_what_is_no_run_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("runs/a", "runs/sweeps/20261129/b", "elsewhere/c"):
        make_run(tmp_path / path, ["exp=exp5"])
    (tmp_path / "runs" / "sweeps" / "20261129" / "0").mkdir()
    (tmp_path / "runs" / "sweeps" / "back").symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "note.txt").touch()
    (tmp_path / "runs" / "newest").symlink_to(tmp_path / "runs" / "a")
    (tmp_path / "runs" / "b").symlink_to(tmp_path / "runs" / "sweeps" / "20261129" / "b")
    assert [row["run"] for row in listed(["runs/newest"], capsys)] == ["runs/newest"]
    assert [row["run"] for row in listed([], capsys)] == ["runs/a", "runs/sweeps/20261129/b"]
    assert [row["run"] for row in listed(["runs/sweeps/20261129"], capsys)] == ["runs/sweeps/20261129/b"]
    assert [row["run"] for row in listed(["--runs", "elsewhere"], capsys)] == ["elsewhere/c"]
    assert [row["why"] for row in listed(["runs/sweeps/20261129/0"], capsys)] == [
        f"{tmp_path}/runs/sweeps/20261129/0/config.yaml: no such file, so its folder is not a run folder"
    ]


def listed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert command_line.run(status.main, [*arguments, "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["/no/such/run"], "error: /no/such/run: no such run folder\n"),
        (["--runs", "/no/such"], "error: /no/such: no such folder\n"),
        (["--jsn"], "error: unrecognized arguments: --jsn; make status --help tells more\n"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(status.main, arguments) == 1
    assert capsys.readouterr().err == expected


def test_where_there_are_no_runs_yet_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line.run(status.main, []) == 0
    assert capsys.readouterr().out == "no runs in runs/ yet\n"


@pytest.mark.usefixtures("no_override")
def test_a_folder_that_cannot_be_read_is_a_row_and_one_line_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    good, locked = (make_run(tmp_path / "runs" / name, ["exp=exp5"]) for name in ("a", "b"))
    good.job_log.touch(0)
    locked.path.chmod(0)
    try:
        rows = listed([], capsys)
        assert [(row["run"], row["state"]) for row in rows] == [("runs/a", "not submitted"), ("runs/b", "unknown")]
        assert "cannot be read: Permission denied" in rows[1]["why"]
        for words in ([str(locked)], [str(locked), "--follow"], [str(good)], [str(good), "--follow"]):
            assert command_line.run(logs.main, words) == 1
            error = capsys.readouterr().err
            assert "cannot be read: Permission denied" in error
            assert error.count("\n") == 1
    finally:
        locked.path.chmod(0o700)


def test_a_folder_with_a_config_yaml_alone_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "a", ["exp=exp5"])
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text("defaults: []\n")
    assert [row["run"] for row in listed(["."], capsys)] == ["runs/a"]


@pytest.mark.parametrize("name", ["metrics.jsonl", "validations.jsonl", "config.yaml", "result.json"])
def test_a_pipe_in_a_run_folder_is_told_and_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = make_run(tmp_path / "run", ["exp=exp5"])
    (folder.path / name).unlink(missing_ok=True)
    os.mkfifo(folder.path / name)
    assert f"{name} is not a regular file" in read(folder, Schedulers(no_scheduler)).why


def test_ctrl_c_ends_it_at_once_whatever_the_scheduler_does(tmp_path: Path, repository: Path) -> None:
    folders = [make_run(tmp_path / "runs" / str(number), jobs=[str(number)]) for number in range(3)]
    stand_in = tmp_path / "bin" / "squeue"
    stand_in.parent.mkdir()
    stand_in.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nsleep 60\n")
    stand_in.chmod(0o700)
    environment = os.environ | {"PATH": f"{stand_in.parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "jobs.status", str(folders[0].path.parent)]
    with subprocess.Popen(command, cwd=repository, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "asked").exists():
            time.sleep(0.05)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert time.monotonic() - began < 15
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (">/dev/full", "error: nothing more can be written: No space left on device\n"),
        (">&-", "error: the output is closed\n"),
    ],
)
def test_an_output_that_takes_nothing_is_one_line(tmp_path: Path, repository: Path, to: str, expected: str) -> None:
    folder = make_run(tmp_path / "run", ["exp=exp5"])
    folder.job_log.write_text("hello\n" * 10_000)
    for module in ("status", "logs"):
        command = f"exec {sys.executable} -m jobs.{module} {folder.path} {to}"
        done = subprocess.run(["sh", "-c", command], cwd=repository, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, expected), module
