"""Jobs at PBS, against stand-ins for its commands that answer what a real OpenPBS answered."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs import pbs, scheduler, state
from jobs.scheduler import Sighting
from pipeline.run_folder import RunFolder
from tests.jobs import fake_pbs

SITE = [
    "exp=exp5", "site=pbs", "site.queue=rt_HF", "scale=544", "site.device=cpu", "site.backend=gloo",
    "precision.compute=fp32", "site.binding=none", "model=small_resnet", "data=sample", "site.gpus_per_node=null",
    "site.workers_per_node=1",
]  # fmt: skip

STAND_IN = """#!/bin/bash
# In the place of a rank's Python: waits for the request to save in the first attempt, and is done in the next.
run=$3
attempt=$(ls -d "$run"/attempts/* | sort -V | tail -n 1)
[ "${attempt##*/}" = 0 ] || { touch "$attempt/done"; exit 0; }
trap 'exit 85' USR2
touch "$attempt/ready"
while :; do sleep 0.05; done
"""


def submit(tmp_path: Path, *words: str, multirun: bool = False) -> "subprocess.CompletedProcess[str]":
    """What `make submit` and `make sweep` do."""
    command = [sys.executable, "-m", "jobs.submit", *(["--multirun"] if multirun else []), *SITE, *words]
    extra = {"SLURM_JOB_ID": "1", "PBS_JOBID": "9.other", "OMPI_COMM_WORLD_RANK": "3", "BASH_FUNC_ml%%": "() { :; }"}
    return subprocess.run(
        [*command, *([] if multirun else [f"run.dir={tmp_path}/run"])],
        env={**os.environ, **extra},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def queued(*options: str) -> str:
    """The id of a job that is in the queue."""
    command = ["qsub", "-N", "t224-exp5", "-q", "rt_HF", *options, "--", "/bin/true"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("queued", Sighting("waiting", "Q", "Not enough free nodes available")),
        ("running", Sighting("running", "R")),
        ("finished", Sighting("ended", "F")),
        ("failed", Sighting("ended", "F", "exit code 3")),
        ("over walltime", Sighting("ended", "F", "exceeded its wall time")),
        ("deleted", Sighting("ended", "F", "deleted before it ran")),
        ("held", Sighting("waiting", "H", "held", never=True)),
    ],
)
def test_each_state_of_a_job_is_read_as_it_is_meant(server: Path, word: str, expected: Sighting) -> None:
    job_id = queued()
    fake_pbs.set_state(server, job_id, word)
    found = pbs.SCHEDULER.ask(job_id)
    assert (found.phase, found.word, found.never) == (expected.phase, expected.word, expected.never)
    assert found.reason.startswith(expected.reason)


def test_a_job_that_can_never_run_says_so_in_pbss_words(server: Path) -> None:
    job_id = queued()
    fake_pbs.set_state(server, job_id, "never runs")
    found = pbs.SCHEDULER.ask(job_id)
    assert (found.phase, found.never) == ("waiting", True)
    assert found.reason.startswith("Can Never Run: Insufficient amount of resource: ")


def test_a_dependent_job_waits_and_is_not_called_impossible(server: Path) -> None:  # noqa: ARG001
    job_id = queued("-W", f"depend=afternotok:{queued()}")
    found = pbs.SCHEDULER.ask(job_id)
    assert (found.phase, found.never) == ("waiting", False)


def test_a_dropped_dependent_job_has_ended(server: Path) -> None:
    job_id = queued()
    fake_pbs.set_state(server, job_id, "dropped")
    assert pbs.SCHEDULER.ask(job_id).phase == "ended"


def test_a_job_that_pbs_does_not_know_is_absent(server: Path) -> None:  # noqa: ARG001
    assert pbs.SCHEDULER.ask("99999.pbsn0").phase == "absent"


def test_a_server_that_is_down_leaves_the_state_open(server: Path) -> None:
    job_id = queued()
    fake_pbs.set_server(server, answers=False)
    found = pbs.SCHEDULER.ask(job_id)
    assert found.phase == "unanswered"
    assert "cannot connect to server" in found.reason


def test_a_server_that_hangs_is_not_waited_for(server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = queued()
    fake_pbs.set_server(server, delay_s=30)
    monkeypatch.setattr(scheduler, "ANSWER_S", 0.5)
    found = pbs.SCHEDULER.ask(job_id)
    assert (found.phase, found.reason.startswith("qstat did not answer within ")) == ("unanswered", True)


@pytest.mark.parametrize(
    "record", ['{"Jobs": {"1.s": {"job_state": "R", "path": "a\\b"}}}', '"job_state":"R",\n"x":"\\q"']
)
def test_json_that_is_none_is_read_by_its_fields(record: str) -> None:
    assert pbs.sighting(pbs.read_record(record, "1.s")).phase == "running"


def test_submit_gives_qsub_a_command_and_one_chunk_a_node_and_nothing_of_another_job(
    server: Path, tmp_path: Path
) -> None:
    done = submit(tmp_path, "nodes=2", "site.cores_per_node=4", "site.account=grp")
    assert done.stdout == f"job 0.pbsn0 at pbs, run folder: {tmp_path}/run\n", done.stderr
    (call,) = fake_pbs.calls(server, "qsub")
    assert call["argv"] == [
        "-N", "t224-exp5", "-P", "grp", "-q", "rt_HF", "-l", "select=2:ncpus=4:mpiprocs=1", "-l", "place=scatter",
        "-l", "walltime=1:00:00",
        "-j", "oe", "-o", f"{tmp_path}/run/log/scheduler.log", "-r", "y", "-m", "n",
        "--", "/bin/bash", f"{tmp_path}/run/job.sh",
    ]  # fmt: skip
    assert not [name for name in call["environment"] if name.startswith(("SLURM_", "PBS_", "OMPI_", "BASH_FUNC_"))]


def test_what_pbs_refuses_is_told_in_its_words_and_leaves_no_run_folder(server: Path, tmp_path: Path) -> None:  # noqa: ARG001
    done = submit(tmp_path, "nodes=2", "site.queue=nosuch")
    assert done.returncode == 1
    assert done.stderr == "error: PBS refuses the job: qsub: Unknown queue\n"
    assert not (tmp_path / "run").exists()


def test_a_chain_is_submitted_ahead_each_job_after_the_one_before(server: Path, tmp_path: Path) -> None:
    submit(tmp_path, "nodes=2", "site.requeue.how=chain", "site.requeue.max=2")
    argv = [call["argv"] for call in fake_pbs.calls(server, "qsub")]
    assert [words[-1] for words in argv] == [f"{tmp_path}/run/job.sh", "follow", "follow"]
    depends = [words[words.index("-W") + 1] for words in argv[1:]]
    assert depends == ["depend=afternotok:0.pbsn0", "depend=afternotok:1.pbsn0"]
    assert RunFolder(tmp_path / "run").job_ids() == ["0.pbsn0", "1.pbsn0", "2.pbsn0"]


def test_a_sweep_of_alike_runs_is_one_array(server: Path, tmp_path: Path) -> None:
    words = ["optim.lr=1.0,2.0,3.0,3.1", f"run.dir={tmp_path}/run-${{optim.lr}}", f"hydra.sweep.dir={tmp_path}/sweeps"]
    done = submit(tmp_path, "workers=1", *words, multirun=True)
    runs = [RunFolder(tmp_path / f"run-{rate}") for rate in ("1.0", "2.0", "3.0", "3.1")]
    assert [run.job_ids() for run in runs] == [[f"0[{index}].pbsn0"] for index in range(4)], done.stderr
    (call,) = fake_pbs.calls(server, "qsub")
    assert call["argv"][call["argv"].index("-J") + 1] == "0-3"
    for index in range(4):
        fake_pbs.set_state(server, f"0[{index}]", "running")
    assert {state.find_out(run, pbs.SCHEDULER.ask).word for run in runs} == {"running"}


def test_a_run_out_of_time_is_submitted_anew_and_the_handle_follows_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "server"
    for name, value in fake_pbs.install(folder, runs=True).items():
        monkeypatch.setenv(name, value)
    stand_in = tmp_path / "rank"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    short = ["site.wall_time=0:00:30", "site.requeue.lead_s=28"]
    done = submit(tmp_path, "workers=1", *short, f"site.python={stand_in}", *root_may())
    assert done.returncode == 0, done.stderr
    run = RunFolder(tmp_path / "run")
    try:
        wait_until_done(run)
    finally:
        fake_pbs.stop(folder)
    assert [run.exit_code(run.attempts / number) for number in ("0", "1")] == [85, 0]
    assert run.job_ids() == ["1.pbsn0"]
    lines = [json.loads(line) for line in run.submissions.read_text().splitlines()]
    assert [line["job_ids"] for line in lines] == [["0.pbsn0"], ["1.pbsn0"]]
    first, second = fake_pbs.calls(folder, "qsub")
    assert first["argv"] == second["argv"]


def root_may() -> Sequence[str]:
    """Open MPI refuses root, whom containers of tests know alone."""
    return ["site.launcher_options=[--allow-run-as-root]"] if os.geteuid() == 0 else []


def wait_until_done(run: RunFolder) -> None:
    ends = time.monotonic() + 60
    while (found := state.find_out(run, pbs.SCHEDULER.ask)).word != "done":
        log = run.job_log.read_text() if run.job_log.exists() else ""
        assert time.monotonic() < ends, (found, log)
        assert not found.final, (found, log)
        time.sleep(0.2)


@pytest.mark.parametrize("printed", ["{ half", "[]", '{"Jobs": [1]}', '{"Jobs": {}}', "", "\\xff"])
def test_an_answer_that_is_none_leaves_the_state_open(server: Path, printed: str) -> None:
    command = server / "bin" / "qstat"
    command.write_text(f"#!/bin/bash\nprintf '{printed}'\n")
    assert pbs.SCHEDULER.ask("0.pbsn0").phase == "unanswered"


def test_of_a_sweep_in_which_some_are_refused_the_others_are_submitted_and_the_refused_named(
    server: Path, tmp_path: Path
) -> None:
    words = ["site.queue=nosuch,rt_HF", f"run.dir={tmp_path}/run-${{site.queue}}", f"hydra.sweep.dir={tmp_path}/sweeps"]
    done = submit(tmp_path, "workers=1", *words, multirun=True)
    assert done.returncode == 1
    assert done.stdout == f"job 0.pbsn0 at pbs, run folder: {tmp_path}/run-rt_HF\n"
    assert done.stderr == "error: run-nosuch: PBS refuses the job: qsub: Unknown queue\n"
    assert not (tmp_path / "run-nosuch").exists()
    assert len(fake_pbs.calls(server, "qsub")) == 2


def test_a_refused_resubmission_leaves_the_run_as_it_was(server: Path, tmp_path: Path) -> None:
    submit(tmp_path, "nodes=2")
    run = RunFolder(tmp_path / "run")
    fake_pbs.set_state(server, "0.pbsn0", "deleted")
    run.cancelled.touch()
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    command = [sys.executable, "-m", "jobs.resubmit", str(run.path), "site.queue=nosuch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == "error: PBS refuses the job: qsub: Unknown queue\n"
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before
