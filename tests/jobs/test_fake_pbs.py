"""The stand-ins for PBS's commands answer as the records do: each expected value is read from them."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import fake_pbs

RECORDS = Path(__file__).parent / "pbs_records"

Pbs = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pbs"


@pytest.fixture
def pbs(folder: Path, tmp_path: Path) -> Pbs:
    """Runs a command of PBS in a folder of a user."""
    return commands(fake_pbs.install(folder), tmp_path)


@pytest.fixture
def running_pbs(folder: Path, tmp_path: Path) -> Iterator[Pbs]:
    """The same, and its jobs run."""
    yield commands(fake_pbs.install(folder, runs=True), tmp_path)
    fake_pbs.stop(folder)


def commands(variables: dict[str, str], cwd: Path) -> Pbs:
    environment = {**os.environ, **variables}

    def call(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(words, env=environment, cwd=cwd, capture_output=True, text=True, check=False)

    return call


def recorded(file: str, name: str) -> dict[str, Any]:
    job: dict[str, Any] = json.loads((RECORDS / file).read_text())["Jobs"][name]
    return job


def said(file: str, command: str) -> tuple[str, int]:
    """What a command said in a record, and its exit code."""
    part = (RECORDS / file).read_text().partition(f"$ {command}\n")[2].partition("\n$ ")[0]
    words, code = part.strip().rsplit("\nrc ", 1)
    return words, int(code)


def told(pbs: Pbs, job_id: str) -> dict[str, Any]:
    """The record of one job."""
    done = pbs("qstat", "-x", "-f", "-F", "json", job_id)
    assert done.returncode == 0, done.stderr
    job: dict[str, Any] = json.loads(done.stdout)["Jobs"][job_id]
    return job


def submit(pbs: Pbs, *options: str, command: tuple[str, ...] = ("/bin/bash", "/x/job.sh")) -> str:
    done = pbs("qsub", *options, "--", *command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_ids_have_the_recorded_forms(pbs: Pbs) -> None:
    for options, command in (((), "qsub ok.sh"), (("-J", "0-3"), "qsub arr.sh")):
        form = re.sub(r"^\d+", "", said("qsub.txt", command)[0])
        assert re.fullmatch(r"\d+" + re.escape(form), submit(pbs, *options))


def test_a_call_is_noted_with_its_words_folder_and_environment(pbs: Pbs, folder: Path, tmp_path: Path) -> None:
    submit(pbs, "-N", "a name", "-l", "select=1")
    (call,) = fake_pbs.calls(folder, "qsub")
    assert call["argv"] == ["-N", "a name", "-l", "select=1", "--", "/bin/bash", "/x/job.sh"]
    assert call["cwd"] == str(tmp_path)
    assert call["environment"]["HOME"] == os.environ["HOME"]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("-q", "rt_G", "--", "true"), "qsub -q nosuch ok.sh"),
        (("-l", "walltime=1h", "--", "true"), "qsub -l walltime=abc ok.sh"),
        (("-J", "1-1", "--", "true"), "qsub -J 1-1 ok.sh"),
        (("nosuchfile.sh",), "qsub nosuchfile.sh"),
    ],
)
def test_what_pbs_refuses_is_refused_in_its_words(pbs: Pbs, words: tuple[str, ...], command: str) -> None:
    done = pbs("qsub", *words)
    assert (done.stderr.strip(), done.returncode) == said("qsub.txt", command)
    assert not done.stdout


@pytest.mark.parametrize(
    ("state", "file", "name"),
    [
        ("queued", "qstat-mixed.json", "10.pbsn0"),
        ("running", "qstat-mixed.json", "9.pbsn0"),
        ("finished", "qstat-mixed.json", "4.pbsn0"),
        ("failed", "qstat-mixed.json", "5.pbsn0"),
        ("over walltime", "qstat-walltime.json", "9.pbsn0"),
        ("deleted", "qstat-deleted.json", "10.pbsn0"),
        ("never runs", "qstat-mixed.json", "7.pbsn0"),
    ],
)
def test_a_job_has_the_record_of_its_state(pbs: Pbs, folder: Path, state: str, file: str, name: str) -> None:
    job_id = submit(pbs, "-N", "mine", "-l", "select=2:ncpus=4", "-l", "walltime=01:00:00", "-o", "/x/job.log")
    fake_pbs.set_state(folder, job_id, state)
    job, record = told(pbs, job_id), recorded(file, name)
    for key in ("job_state", "substate", "comment", "Exit_status", "exec_host", "Hold_Types", "stime"):
        assert job.get(key) == record.get(key)
    assert job.keys() == record.keys()
    assert (job["Job_Name"], job["Output_Path"]) == ("mine", "pbsn0:/x/job.log")
    assert (job["Resource_List"]["select"], job["Resource_List"]["walltime"]) == ("2:ncpus=4", "01:00:00")


def test_another_exit_status_can_be_told(pbs: Pbs, folder: Path) -> None:
    job_id = submit(pbs)
    fake_pbs.set_state(folder, job_id, "failed", exit_status=85)
    assert told(pbs, job_id)["Exit_status"] == 85


def test_an_array_has_the_record_of_one(pbs: Pbs) -> None:
    job_id = submit(pbs, "-J", "0-3")
    record = recorded("qstat-mixed.json", "6[].pbsn0")
    job = told(pbs, job_id)
    for key in ("array", "array_indices_submitted", "array_state_count", "comment"):
        assert job[key] == record[key]


def test_a_job_that_does_not_exist_is_unknown(pbs: Pbs) -> None:
    for command in ("qstat", "qdel"):
        done = pbs(command, "99999")
        assert (done.stderr.strip(), done.returncode) == said("errors.txt", f"{command} 99999")


def test_a_finished_job_is_told_of_only_with_x(pbs: Pbs, folder: Path) -> None:
    assert submit(pbs) == "0.pbsn0"
    fake_pbs.set_state(folder, "0", "finished")
    done = pbs("qstat", "-f", "-F", "json", "0.pbsn0")
    assert (done.stderr.strip(), done.returncode) == said("errors.txt", "qstat 0.pbsn0 (finished, no -x)")


def test_a_server_may_be_down(pbs: Pbs, folder: Path) -> None:
    fake_pbs.set_server(folder, answers=False)
    done = pbs("qstat", "0")
    assert done.returncode == 255
    assert "cannot connect to server pbsn0" in done.stderr


def test_a_deleted_job_is_no_longer_queued(pbs: Pbs) -> None:
    job_id = submit(pbs)
    assert pbs("qdel", job_id).returncode == 0
    assert told(pbs, job_id)["job_state"] == recorded("qstat-deleted.json", "10.pbsn0")["job_state"]


def wait_until(question: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not question():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_job_runs_with_the_recorded_environment_and_its_code_is_told(running_pbs: Pbs, tmp_path: Path) -> None:
    line = "env -0 > $PBS_O_WORKDIR/environment; wc -l < $PBS_NODEFILE; exit 3"
    job_id = submit(running_pbs, "-o", "log", "-l", "select=2:mpiprocs=4", command=("/bin/bash", "-c", line))
    wait_until(lambda: told(running_pbs, job_id)["job_state"] == "F")
    found = dict(one.split("=", 1) for one in (tmp_path / "environment").read_text().split("\0") if one)
    assert {one.partition("=")[0] for one in (RECORDS / "env.txt").read_text().splitlines()} <= found.keys()
    assert (found["PBS_JOBID"], found["PBS_O_WORKDIR"]) == (job_id, str(tmp_path))
    assert (tmp_path / "log").read_text().strip() == "8"
    assert told(running_pbs, job_id)["Exit_status"] == recorded("qstat-mixed.json", "5.pbsn0")["Exit_status"]


def test_a_signal_reaches_every_process_of_a_job(running_pbs: Pbs, tmp_path: Path) -> None:
    inner, script = tmp_path / "inner.sh", tmp_path / "job.sh"
    inner.write_text(f"trap 'exit 7' USR2; touch {tmp_path}/ready; while :; do sleep 0.05; done")
    script.write_text(f"trap : USR2; bash {inner} & wait; wait $!; exit $?")
    job_id = submit(running_pbs, command=("/bin/bash", str(script)))
    wait_until((tmp_path / "ready").exists)
    assert running_pbs("qsig", "-s", "USR2", job_id).returncode == 0
    wait_until(lambda: told(running_pbs, job_id)["job_state"] == "F")
    assert told(running_pbs, job_id)["Exit_status"] == 7
