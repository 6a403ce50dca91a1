"""What holds at every scheduler: tests for a class of each scheduler's file to inherit."""

import json

import pytest

from pipeline.run_folder import RunFolder
from tests.cluster.runs import DONE, SAVES, Runs, exits, losses, wait_for

ONE_A_NODE = "site.workers_per_node=1"
UPDATES = 15
"""A run whose clock runs out while it starts is saved at update 10, where ranks first agree; the next start ends it."""


@pytest.fixture(scope="module")
def out_of_time(runs: Runs) -> tuple[RunFolder, RunFolder]:
    """A run whose wall time ends before it does, and an undisturbed one."""
    words = f"{ONE_A_NODE} run.stop_after_updates={UPDATES}"
    short = "site.wall_time=0:05:00 site.requeue.lead_s=299"
    nodes = f"NODES={runs.nodes}"
    return runs.submit("short", f"{words} {short}", nodes), runs.submit("whole", words, nodes)


@pytest.mark.usefixtures("out_of_time")  # what takes longest starts first
class Lifecycle:
    """The fixture `runs` is the scheduler's own."""

    def test_a_cancelled_run_ends_and_is_not_started_again(self, runs: Runs) -> None:
        run = runs.submit("cancelled", f"{ONE_A_NODE} {runs.stand_in()}", "NODES=1")
        wait_for(run.attempts / "0" / "ready", run)
        assert runs.row(run)["state"] == "running"
        runs.make("cancel", f"RUN={run.path}")
        assert runs.until(run, ["cancelled"])["state"] == "cancelled"
        assert len(exits(run)) == 1

    def test_a_failing_run_shows_its_exit_code_and_last_words(self, runs: Runs) -> None:
        run = runs.submit("failing", f"{ONE_A_NODE} model.classes=11 run.stop_after_updates=2", "NODES=1")
        runs.wait_for_an_end(run)
        row = runs.until(run, ["failed"])
        assert row["why"].startswith("exit code 1: rank 0: model.classes=11, but ")
        assert exits(run) == [1]

    def test_a_sweep_of_four_is_one_array_of_which_each_is_a_run(self, runs: Runs) -> None:
        rates = ("1.0", "2.0", "3.0", "3.1")
        words = runs.arguments(
            f"{ONE_A_NODE} 'optim.lr={','.join(rates)}' {runs.stand_in(DONE)} "
            f"'run.dir={runs.folder}/sweep-$${{optim.lr}}'"
        )
        done = runs.make("sweep", "EXP=5", f"SITE={runs.site}", "WORKERS=1", words)
        swept = [RunFolder(runs.folder / f"sweep-{rate}") for rate in rates]
        ids = [run.job_ids()[0] for run in swept]
        assert len(set(ids)) == 4
        assert len({one.replace("_", ".").partition(".")[0] for one in ids}) == 1
        assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("job ")] == ids
        for run, job_id in zip(swept, ids, strict=True):
            runs.wait_for_an_end(run)
            assert runs.row(run)["state"] == "done"
            assert (run.attempts / "0" / "job_id").read_text().strip() == job_id

    def test_two_nodes_of_four_workers_train_to_the_result(self, runs: Runs) -> None:
        run = runs.submit(
            "two-nodes", f"site.workers_per_node=4 run.stop_after_updates=4 data.placement={runs.placement}", "NODES=2"
        )
        result = runs.finished(run)
        assert (result["workers"], result["updates"]) == (8, 4)
        hosts = [line.split() for line in (run.attempts / "0" / "hosts").read_text().splitlines()]
        assert len({host for host, _ in hosts}) == 2
        assert [slots for _, slots in hosts] == ["slots=4", "slots=4"]
        assert f"samples: {runs.placement}, " in run.rank_log(0).read_text()
        averaging = json.loads(run.all_reduce.read_text())
        assert averaging["nodes"] == [4, 4]
        assert sorted(path.name for path in run.log.glob("rank-*")) == [f"rank-{rank}.log" for rank in range(8)]

    def test_a_chain_of_jobs_goes_on_where_the_one_before_saved_and_ends_when_the_run_is_done(self, runs: Runs) -> None:
        chain = "site.requeue.how=chain site.requeue.max=2 site.wall_time=0:05:00 site.requeue.lead_s=299"
        run = runs.submit("chain", f"{ONE_A_NODE} {chain} {runs.stand_in(SAVES)}", "NODES=1")
        assert len(run.job_ids()) == 3
        runs.wait_for_an_end(run)
        assert runs.row(run)["state"] == "done"
        assert exits(run) == [85, 0]
        assert [(run.attempts / number / "job_id").read_text().strip() for number in ("0", "1")] == run.job_ids()[:2]

    def test_a_run_out_of_time_is_saved_started_again_and_ends_as_an_undisturbed_one(
        self, runs: Runs, out_of_time: tuple[RunFolder, RunFolder]
    ) -> None:
        short, whole = out_of_time
        assert runs.finished(whole)["updates"] == UPDATES
        assert runs.finished(short)["updates"] == UPDATES
        assert exits(whole) == [0]
        assert exits(short) == [85, 0]
        assert short.checkpoint(10).exists()
        assert runs.row(short)["starts"] == 1
        assert losses(short) == losses(whole)
