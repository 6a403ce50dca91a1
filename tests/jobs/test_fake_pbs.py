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
    """What a command said in a record on standard error, and its exit code."""
    part = (RECORDS / file).read_text().partition(f"$ {command}\n")[2].partition("\n$ ")[0]
    words, code = part.strip().rsplit("\nrc ", 1)
    return words.partition("\n{")[0].strip(), int(code)


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
    submit(pbs, "-N", "name", "-l", "select=1")
    (call,) = fake_pbs.calls(folder, "qsub")
    assert call["argv"] == ["-N", "name", "-l", "select=1", "--", "/bin/bash", "/x/job.sh"]
    assert call["cwd"] == str(tmp_path)
    assert call["environment"]["HOME"] == os.environ["HOME"]


@pytest.mark.parametrize(
    ("words", "file", "command"),
    [
        (("-q", "rt_G", "--", "true"), "qsub.txt", "qsub -q nosuch ok.sh"),
        (("-l", "walltime=1h", "--", "true"), "qsub.txt", "qsub -l walltime=abc ok.sh"),
        (("-J", "1-1", "--", "true"), "qsub.txt", "qsub -J 1-1 ok.sh"),
        (("nosuchfile.sh",), "qsub.txt", "qsub nosuchfile.sh"),
        (("-N", "two words", "--", "true"), "refusals.txt", "qsub -N 'a b' -- /bin/true"),
        (("-N", "x" * 231, "--", "true"), "refusals.txt", f"qsub -N {'x' * 231} -- /bin/true"),
        (("-l", "select=1:nosuch=4", "--", "true"), "refusals.txt", "qsub -l select=1:nosuch=1 -- /bin/true"),
        (("-l", "select=1,ncpus=4", "--", "true"), "refusals.txt", "qsub -l select=1 -l ncpus=2 -- /bin/true"),
        (("-y", "--", "true"), "refusals.txt", "qsub -y"),
    ],
)
def test_what_pbs_refuses_is_refused_in_its_words(pbs: Pbs, words: tuple[str, ...], file: str, command: str) -> None:
    done = pbs("qsub", *words)
    assert (done.stderr.strip(), done.returncode) == said(file, command)
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
        ("deleted while running", "qstat-deleted-while-running.json", "3.pbsn0"),
        ("never runs", "qstat-mixed.json", "7.pbsn0"),
        ("held", "qstat-held.json", "0.pbsn0"),
        ("waiting", "qstat-waiting.json", "2.pbsn0"),
        ("dropped", "qstat-dropped.json", "2.pbsn0"),
    ],
)
def test_a_job_has_the_record_of_its_state(pbs: Pbs, folder: Path, state: str, file: str, name: str) -> None:
    job_id = submit(pbs, "-N", "mine", "-l", "select=2:ncpus=4", "-l", "walltime=01:00:00", "-o", "/x/job.log")
    fake_pbs.set_state(folder, job_id, state)
    job, record = told(pbs, job_id), recorded(file, name)
    for key in ("job_state", "substate", "comment", "Exit_status", "exec_host", "Hold_Types", "stime"):
        assert job.get(key) == record.get(key)
    of_a_command = {"executable", "argument_list"}  # the older records are of jobs that were scripts
    assert job.keys() - of_a_command == record.keys() - of_a_command
    assert (job["Job_Name"], job["Output_Path"]) == ("mine", "pbsn0:/x/job.log")
    assert (job["Resource_List"]["select"], job["Resource_List"]["walltime"]) == ("2:ncpus=4", "01:00:00")


def test_another_exit_status_can_be_told(pbs: Pbs, folder: Path) -> None:
    job_id = submit(pbs)
    fake_pbs.set_state(folder, job_id, "failed", exit_status=85)
    assert told(pbs, job_id)["Exit_status"] == 85


@pytest.mark.parametrize(
    ("state", "file", "name"),
    [
        ("queued", "qstat-array-queued.json", "11[].pbsn0"),
        ("running", "qstat-array-running.json", "11[].pbsn0"),
        ("finished", "qstat-mixed.json", "6[].pbsn0"),
        ("failed", "qstat-array-failed.json", "11[].pbsn0"),
        ("deleted", "qstat-array-deleted.json", "12[].pbsn0"),
    ],
)
def test_an_array_has_the_record_of_its_state(pbs: Pbs, folder: Path, state: str, file: str, name: str) -> None:
    job_id = submit(pbs, "-J", "0-3")
    fake_pbs.set_state(folder, job_id, state)
    job, record = told(pbs, job_id), recorded(file, name)
    for key in ("job_state", "array", "array_indices_submitted", "array_state_count", "comment", "Exit_status"):
        assert job.get(key) == record.get(key)


@pytest.mark.parametrize(
    ("state", "file", "name"),
    [
        ("queued", "qstat-member-queued.json", "11[2].pbsn0"),
        ("running", "qstat-member-running.json", "11[2].pbsn0"),
        ("finished", "qstat-member-finished.json", "11[0].pbsn0"),
        ("failed", "qstat-member-failed.json", "11[2].pbsn0"),
        ("deleted", "qstat-member-deleted.json", "12[1].pbsn0"),
    ],
)
def test_a_member_of_an_array_has_the_record_of_its_state(
    pbs: Pbs, folder: Path, state: str, file: str, name: str
) -> None:
    member = submit(pbs, "-J", "0-3").replace("[]", "[2]")
    fake_pbs.set_state(folder, member, state)
    job, record = told(pbs, member), recorded(file, name)
    assert job.get("array_index") == (2 if "array_index" in record else None)  # a queued one tells none
    for key in ("job_state", "substate", "comment", "Exit_status"):
        assert job.get(key) == record.get(key)
    of_a_command = {"executable", "argument_list"}
    assert job.keys() - of_a_command == record.keys() - of_a_command


def test_with_t_the_members_of_an_array_are_told_of_too(pbs: Pbs) -> None:
    done = pbs("qstat", "-t", "-f", "-F", "json", submit(pbs, "-J", "0-4:2"))
    assert list(json.loads(done.stdout)["Jobs"]) == [f"0[{index}].pbsn0" for index in ("", "0", "2", "4")]


def test_an_array_and_a_member_that_it_does_not_have_are_unknown_by_other_names(pbs: Pbs) -> None:
    submit(pbs, "-J", "0-3")
    for name in ("0", "0[7]"):
        assert pbs("qstat", name).returncode == said("errors.txt", "qstat 99999")[1]


def test_a_job_that_does_not_exist_is_unknown(pbs: Pbs) -> None:
    for words, file, command in (
        (("qstat", "99999"), "errors.txt", "qstat 99999"),
        (("qstat", "-x", "-f", "-F", "json", "99999"), "refusals.txt", "qstat -x -f -F json 99999"),
        (("qdel", "99999"), "errors.txt", "qdel 99999"),
        (("qsig", "-s", "USR2", "99999"), "refusals.txt", "qsig -s USR2 99999"),
    ):
        done = pbs(*words)
        assert (done.stderr.strip(), done.returncode) == said(file, command)
        assert ("json" in words) == bool(done.stdout)
        assert "Jobs" not in done.stdout


def test_what_is_asked_of_a_finished_job_is_refused(pbs: Pbs, folder: Path) -> None:
    job_id = submit(pbs)
    fake_pbs.set_state(folder, job_id, "finished")
    for words, file, command in (
        (("qstat", "-f", "-F", "json"), "errors.txt", "qstat 0.pbsn0 (finished, no -x)"),
        (("qdel",), "refusals.txt", "qdel 13.pbsn0"),
        (("qsig", "-s", "USR2"), "refusals.txt", "qsig -s USR2 13.pbsn0"),
    ):
        done = pbs(*words, job_id)
        assert (done.stderr.strip().replace(job_id, "ID"), done.returncode) == (
            re.sub(r"\d+\.pbsn0", "ID", said(file, command)[0]),
            said(file, command)[1],
        )


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("qsub", "--", "true"), "qsub -- /bin/true"),
        (("qstat", "0"), "qstat 0"),
        (("qstat", "-x", "-f", "-F", "json", "0"), "qstat -x -f -F json 0"),
        (("qdel", "0"), "qdel 0"),
        (("qsig", "-s", "USR2", "0"), "qsig -s USR2 0"),
    ],
)
def test_without_a_server_every_command_fails_in_its_own_way(
    pbs: Pbs, folder: Path, words: tuple[str, ...], command: str
) -> None:
    fake_pbs.set_server(folder, answers=False)
    done = pbs(*words)
    assert (done.stderr.strip(), done.returncode) == said("refusals.txt", f"{command} (no server)")


def test_a_backslash_makes_the_answer_no_json_and_a_name_may_be_a_number(pbs: Pbs) -> None:
    """As the same two submissions had it: qsub -N 123, and qsub -- /bin/echo 'a\\db'."""
    job_id = submit(pbs, "-N", "123")
    assert told(pbs, job_id)["Job_Name"] == 123
    done = pbs("qstat", "-f", "-F", "json", submit(pbs, command=("/bin/echo", "a\\db")))
    with pytest.raises(ValueError, match="escape"):
        json.loads(done.stdout)


def test_a_queued_job_that_is_deleted_has_the_record_of_one(pbs: Pbs) -> None:
    job_id = submit(pbs)
    assert pbs("qdel", job_id).returncode == 0
    assert told(pbs, job_id)["comment"] == recorded("qstat-deleted.json", "10.pbsn0")["comment"]


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


TRAPPING = "trap 'exit 85' TERM; touch {ready}; while :; do sleep 0.05; done"
IGNORING = "trap '' TERM; touch {ready}; while :; do sleep 0.05; done"


@pytest.mark.parametrize(("line", "status"), [(TRAPPING, 85), (IGNORING, 256 + 9)])
def test_a_running_job_that_is_deleted_gets_term_and_then_kill(
    running_pbs: Pbs, tmp_path: Path, line: str, status: int
) -> None:
    """PBS told Exit_status 85 of a job that had trapped TERM so, and 271 of one that TERM had ended."""
    job_id = submit(running_pbs, command=("/bin/bash", "-c", line.format(ready=tmp_path / "ready")))
    wait_until((tmp_path / "ready").exists)
    assert running_pbs("qdel", job_id).returncode == 0
    wait_until(lambda: told(running_pbs, job_id)["Exit_status"] == status)
    assert told(running_pbs, job_id)["comment"] == recorded("qstat-deleted-while-running.json", "3.pbsn0")["comment"]


def test_a_job_over_its_wall_time_is_told_of_as_that_whatever_it_returned(running_pbs: Pbs, tmp_path: Path) -> None:
    line = TRAPPING.format(ready=tmp_path / "ready")
    job_id = submit(running_pbs, "-l", "walltime=1", command=("/bin/bash", "-c", line))
    wait_until(lambda: told(running_pbs, job_id)["job_state"] == "F")
    assert told(running_pbs, job_id)["Exit_status"] == recorded("qstat-walltime.json", "9.pbsn0")["Exit_status"]


def test_a_job_can_submit_the_next_one(running_pbs: Pbs, tmp_path: Path) -> None:
    line = f"qsub -o {tmp_path}/next -- /bin/echo $PBS_JOBID; exit 85"
    first = submit(running_pbs, "-o", "first", command=("/bin/bash", "-c", line))
    wait_until(lambda: told(running_pbs, first)["job_state"] == "F")
    second = (tmp_path / "first").read_text().strip()
    wait_until(lambda: told(running_pbs, second)["job_state"] == "F")
    assert (tmp_path / "next").read_text().strip() == first
