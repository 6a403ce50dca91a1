"""Whole runs at a real Grid Engine, on ABCI's profile: from `make submit` to the result, and what can come between."""

import pytest

from tests.cluster.gridengine_cluster import GridEngineCluster
from tests.cluster.lifecycle import ONE_A_NODE, Lifecycle, out_of_time
from tests.cluster.runs import DONE, Runs, everything, exits, wait_for

__all__ = ["out_of_time"]  # a fixture of its module


@pytest.fixture(scope="module")
def runs(gridengine: GridEngineCluster, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    words = "site.wall_time=0:10:00 site.account=gaa50000"
    return Runs(gridengine, "abci", tmp_path_factory.mktemp("runs"), words, placement="partitioned")


class TestGridEngine(Lifecycle):
    """What holds at every scheduler holds here."""


def test_a_job_that_can_never_run_is_shown_with_grid_engines_reason(runs: Runs) -> None:
    run = runs.submit("never", f"{ONE_A_NODE} {runs.stand_in()} workers=8", "NODES=8")
    runs.until(run, ["waiting"], why="cannot run as it is: ")
    runs.make("cancel", f"RUN={run.path}")
    assert runs.until(run, ["cancelled"])["state"] == "cancelled"


def test_doctor_has_grid_engine_verify_the_script_and_tells_its_words(runs: Runs) -> None:
    words = runs.arguments(f"run.dir={runs.folder}/looked-at {ONE_A_NODE}")
    fits = runs.make("doctor", "EXP=5", f"SITE={runs.site}", "NODES=2", words).stdout
    assert "ok    scheduler: found SGE 8" in fits
    assert "ok    scheduler's test of the script: found verification: found" in fits
    too_many = runs.make("doctor", "EXP=5", f"SITE={runs.site}", "NODES=8", f"{words} workers=8", check=False)
    assert "FAIL  scheduler's test of the script: found " in too_many.stdout


def test_a_site_with_a_parallel_environment_has_its_ranks_on_its_nodes(runs: Runs) -> None:
    other = Runs(runs.cluster, "gridengine", runs.folder, "site.wall_time=0:10:00 site.cores_per_node=4")
    run = other.submit("slots", f"{ONE_A_NODE} {other.stand_in(DONE)}", "NODES=2")
    other.wait_for_an_end(run)
    assert other.row(run)["state"] == "done"
    nodes = [(run.attempts / "0" / f"rank-{rank}-of-2").read_text() for rank in range(2)]
    assert nodes[0] != nodes[1]


@pytest.mark.long
def test_a_run_on_a_node_that_dies_starts_again_on_another(runs: Runs, gridengine: GridEngineCluster) -> None:
    run = runs.submit("dies", f"{ONE_A_NODE} {runs.stand_in()}", "NODES=1")
    wait_for(run.attempts / "0" / "ready", run)
    node = gridengine.node_names.index((run.attempts / "0" / "hosts").read_text().split()[0])
    gridengine.kill_daemon(node)
    try:
        row = runs.until(run, ["done", "failed", "lost"])
        assert (row["state"], exits(run)) == ("done", [None, 0]), everything(run)
    finally:
        gridengine.restart_daemon(node)
