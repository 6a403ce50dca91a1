"""Whole runs at a real SLURM: from `make submit` to the result, and all that can come between."""

from pathlib import Path

import pytest

from tests.cluster.lifecycle import ONE_A_NODE, Lifecycle, out_of_time
from tests.cluster.runs import DONE, Runs, everything, exits, wait_for
from tests.cluster.slurm_cluster import SlurmCluster

__all__ = ["out_of_time"]  # a fixture of its module


@pytest.fixture(scope="module")
def runs(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(slurm, "slurm", tmp_path_factory.mktemp("runs"), "site.wall_time=0:10:00", nodes=2)


class TestSlurm(Lifecycle):
    """What holds at every scheduler holds here."""


def test_a_job_that_can_never_run_is_shown_with_slurms_reason(runs: Runs) -> None:
    run = runs.submit("never", f"{ONE_A_NODE} site.wall_time=3-00:00:00 {runs.stand_in()}", "NODES=1")
    assert runs.until(run, ["waiting"], why="cannot run")["why"] == "cannot run as it is: PartitionTimeLimit"
    runs.make("cancel", f"RUN={run.path}")
    assert runs.until(run, ["cancelled"])["state"] == "cancelled"


def test_what_slurm_refuses_is_told_in_its_words_and_leaves_no_run_folder(runs: Runs) -> None:
    folder = runs.folder / "refused"
    words = runs.arguments(f"run.dir={folder} site.queue=nosuch {ONE_A_NODE}")
    done = runs.make("submit", "EXP=5", "SITE=slurm", "NODES=1", words, check=False)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: SLURM refuses the job: ")
    assert "invalid partition specified" in line
    assert not folder.exists()


def test_a_job_submitted_from_inside_another_asks_for_its_own_machines(runs: Runs, slurm: SlurmCluster) -> None:
    inherited = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "4", "SBATCH_EXCLUSIVE": "1", "SLURM_CPU_BIND": "map_cpu:0",
                 "SBATCH_PARTITION": "nosuch", "OMPI_COMM_WORLD_SIZE": "1", "PMIX_RANK": "0"}  # fmt: skip
    run = runs.submit("inside", f"{ONE_A_NODE} {runs.stand_in()}", "NODES=1", env=inherited)
    wait_for(run.attempts / "0" / "ready", run)
    (job,) = run.job_ids()
    assert slurm.run(["squeue", "--noheader", "--format=%D %P", f"--jobs={job}"]).stdout.split() == ["1", "main"]
    runs.make("cancel", f"RUN={run.path}")


@pytest.mark.long
def test_a_term_to_ranks_under_srun_saves_and_the_run_goes_on(runs: Runs, slurm: SlurmCluster) -> None:
    words = f"site.launcher=srun {ONE_A_NODE} run.stop_after_updates=100 run.agree_every_updates=1"
    run = runs.submit("term", words, "NODES=2")
    wait_for(run.metrics, run)
    slurm.run(["scancel", "--signal=TERM", run.job_ids()[0]])  # to the ranks, not to the script
    result = runs.finished(run)
    assert (result["workers"], result["updates"]) == (2, 100)
    assert exits(run) == [85, 0]


def test_doctor_has_slurm_test_the_script_and_tells_its_words(runs: Runs) -> None:
    words = runs.arguments(f"run.dir={runs.folder}/looked-at site.launcher=srun {ONE_A_NODE}")
    output = runs.make("doctor", "EXP=5", "SITE=slurm", "NODES=2", words).stdout
    assert "ok    scheduler: found SLURM 2" in output
    assert "ok    scheduler's test of the script: found sbatch: Job " in output
    assert "ok    launcher: found srun with pmix" in output
    refused = runs.make("doctor", "EXP=5", "SITE=slurm", "NODES=2", f"{words} site.queue=nosuch", check=False)
    assert "FAIL  scheduler's test of the script: found " in refused.stdout
    assert "invalid partition specified" in refused.stdout


def test_a_preempted_run_with_much_state_goes_on_from_its_last_checkpoint(runs: Runs) -> None:
    big = "model.stem=8 model.widths=[8,1024] model.blocks=[1,1] data.image_size=4"
    run = runs.submit(
        "preempted",
        f"{ONE_A_NODE} {big} run.stop_after_updates=8 run.checkpoint_every_updates=2 run.agree_every_updates=1",
        "NODES=1",
    )
    wait_for(run.checkpoint(4), run)
    assert run.checkpoint(4).stat().st_size > 100e6
    urgent = runs.submit(
        "urgent", f"{ONE_A_NODE} site.queue=high 'site.extra_directives=[--exclusive]' {runs.stand_in()}", "NODES=4"
    )
    wait_for(urgent.attempts / "0" / "ready", urgent)
    assert runs.until(run, ["waiting"])["state"] == "waiting"
    runs.make("cancel", f"RUN={urgent.path}")
    assert runs.finished(run)["updates"] == 8
    assert len(exits(run)) == 2
    assert "going on after update" in run.job_log.read_text()


def test_a_run_on_a_node_that_dies_starts_again_on_another(runs: Runs, slurm: SlurmCluster) -> None:
    run = runs.submit("dies", f"{ONE_A_NODE} {runs.stand_in()}", "NODES=1")
    wait_for(run.attempts / "0" / "ready", run)
    node = slurm.node_names.index((run.attempts / "0" / "hosts").read_text().split()[0])
    slurm.kill_daemon(node)
    try:
        row = runs.until(run, ["done", "failed", "lost"])
        assert (row["state"], exits(run)) == ("done", [None, 0]), everything(run)
    finally:
        slurm.restart_daemon(node)


def test_without_accounting_runs_end_as_they_end(slurm_without_accounting: SlurmCluster, tmp_path: Path) -> None:
    runs = Runs(slurm_without_accounting, "slurm", tmp_path, ONE_A_NODE)
    done = runs.submit("done", runs.stand_in(DONE), "NODES=1")
    killed = runs.submit("killed", f"{runs.stand_in()} 'site.extra_directives=[--no-requeue]'", "NODES=1")
    wait_for(killed.attempts / "0" / "ready", killed)
    node = slurm_without_accounting.node_names.index((killed.attempts / "0" / "hosts").read_text().split()[0])
    assert runs.until(done, ["done", "failed", "lost"])["state"] == "done"
    slurm_without_accounting.kill_daemon(node)
    row = runs.until(killed, ["lost", "failed", "done"])
    assert (row["state"], "NODE_FAIL" in row["why"]) == ("lost", True), row
