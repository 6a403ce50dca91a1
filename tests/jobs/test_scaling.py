"""Scaling: which runs are made of how many nodes, and what their table says."""

import json
import os
from pathlib import Path

import pytest

from jobs import command_line, scaling
from jobs.scaling import Run, efficiencies, plan_runs
from pipeline.config import Plan, load, make_plan, save
from pipeline.errors import UserError
from pipeline.evaluate import evaluate
from pipeline.run_folder import RunFolder
from tests.jobs.runs import RESULT, make_run

SLURM = ["site=slurm", "data.path=/imagenet"]


def test_every_worker_takes_32_images_on_any_number_of_nodes() -> None:
    runs = plan_runs([*SLURM, "nodes=1,2,16"])
    assert [run.config.data.synthetic for run in runs] == [False, True] * 3
    plans = [make_plan(run.config) for run in runs]
    assert [plan.workers for plan in plans] == [8, 8, 16, 16, 128, 128]
    for run, plan in zip(runs, plans, strict=True):
        assert_equal_work(plan)
        assert (run.config.recipe.workers, plan.grid.workers) == (plan.workers, plan.workers)
        assert (run.config.experiment, plan.last_update(run.config.run)) == ("scaling", 200)
        assert plan.updates > 200


def assert_equal_work(plan: Plan) -> None:
    (stage,) = plan.stages
    assert (stage.per_worker_batch, stage.micro_batches, stage.total_batch) == (32, 1, 32 * plan.workers)


def test_a_grids_rows_split_no_node() -> None:
    runs = plan_runs([*SLURM, "nodes=2,4"])
    for side in (make_plan(run.config).grid.horizontal for run in runs):
        assert side % 8 == 0 or 8 % side == 0


def test_here_a_worker_stands_for_544_gpus_as_in_every_scale_model() -> None:
    runs = plan_runs(["site=local", "workers=1,4"])
    plans = [make_plan(run.config) for run in runs]
    assert [(run.config.recipe.workers, plan.workers) for run, plan in zip(runs, plans, strict=True)] == [
        (544, 1), (544, 1), (2176, 4), (2176, 4),
    ]  # fmt: skip
    for plan in plans:
        assert_equal_work(plan)


REFUSED = {
    "nothing": ([], "give how many: NODES=1,2,4"),
    "both": (["nodes=1", "workers=1"], "give how many"),
    "no number": (["nodes=1,x"], "nodes=1,x: whole numbers above 0"),
    "none": (["nodes=0"], "nodes=0: whole numbers above 0"),
    "nodes of one machine": (["site=local", "nodes=2"], "site local is one machine; give WORKERS= instead"),
    "an experiment": (["nodes=1", "exp=exp5"], "exp=exp5: make scaling sets that itself"),
    "a grid": (["nodes=1", "grid.vertical=2"], "grid.vertical=2: make scaling sets that itself"),
    "workers that fill no node": ([*SLURM, "nodes=1", "optim.lrr=3"], "unknown key optim.lrr"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_in_one_line(case: str) -> None:
    words, expected = REFUSED[case]
    with pytest.raises(UserError) as caught:
        plan_runs(words)
    assert expected in str(caught.value)


def test_efficiency_is_relative_to_the_smallest_run_that_has_a_result() -> None:
    # Akiba et al. in table 2 of the paper: 80 % at 1024.
    assert efficiencies({1: None, 4: 1000.0, 1024: 204_800.0, 2048: None}) == {
        1: None, 4: 100.0, 1024: pytest.approx(80.0), 2048: None,
    }  # fmt: skip
    assert efficiencies({4: None}) == {4: None}


def add_run(path: Path, run: Run, images_per_s: float | None) -> None:
    folder = RunFolder.create(path)
    save(run.config, folder.config)
    if images_per_s is not None:
        folder.result.write_text(json.dumps(RESULT | {"images_per_s": images_per_s, "top1": None}))


def test_the_report_has_a_row_a_size_real_beside_synthetic_the_newest_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "other")
    assert command_line.run(scaling.main, ["--report"]) == 1
    assert "there are no runs of scaling in runs/ yet" in capsys.readouterr().err
    small, small_synthetic, large, large_synthetic = plan_runs([*SLURM, "nodes=1,2"])
    results = [(small, 9.0), (small, 1000.0), (small_synthetic, 2000.0), (large, 1832.4), (large_synthetic, None)]
    for number, (run, images_per_s) in enumerate(results):
        add_run(tmp_path / "runs" / str(number), run, images_per_s)
    assert command_line.run(scaling.main, ["--report"]) == 0
    text = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if "│" in line]
    assert "scaling at slurm" in text
    assert rows == [
        ["1", "8", "1,000", "100.00 %", "2,000", "100.00 %"],
        ["2", "16", "1,832", "91.62 %", "none yet", ""],
    ]


def test_at_a_cluster_they_are_submitted_and_all_are_checked_first(
    tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sbatch", "squeue", "scancel", "scontrol"):
        (commands / name).write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/told\necho 7\n')
        (commands / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    words = ["site=slurm", f"data.path={sample}", "site.limits.nodes=2"]
    assert command_line.run(scaling.main, [*words, "nodes=1,2,4"]) == 1
    assert "scaling needs 4 nodes (32 workers) and slurm grants 2" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert command_line.run(scaling.main, [*words, "nodes=1,2"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(" at ")[0] for line in said[:4]] == ["job 7_0", "job 7_1"] * 2  # real and synthetic: one array
    assert said[4] == "their table, when they have ended: make scaling REPORT=1"
    assert len((tmp_path / "told").read_text().splitlines()) == 2


@pytest.mark.long
def test_here_they_run_one_after_another_and_their_table_ends_it(
    tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["workers=1", f"data.path={sample}", "run.stop_after_updates=2"]
    assert command_line.run(scaling.main, words) == 0
    results, folders = {}, {}
    for path in sorted((tmp_path / "runs").iterdir()):
        folder = RunFolder(path)
        synthetic_images = load(folder.config).data.synthetic
        results[synthetic_images], folders[synthetic_images] = folder.read_result(), folder
    real, synthetic = results[False], results[True]
    assert real is not None
    assert synthetic is not None
    assert real["validation_images"] == 1000
    assert (synthetic["top1"], synthetic["validation_images"], synthetic["updates"]) == (None, 0, 2)
    assert synthetic["images"] == 64
    text = capfd.readouterr().out
    assert "noise in the shape of MNIST sample" in " ".join(text.split())
    with pytest.raises(UserError, match="trained on noise"):
        evaluate(folders[True], None)
    assert "scaling at local, scale models" in text[text.rindex("run folder: ") :]
