"""Which runs stand together for an experiment, and which stand for none."""

from pathlib import Path
from typing import Any

import pytest

from jobs import report
from pipeline.report.groups import Group
from tests.jobs.report_runs import add_run, finish

FULL = ("exp=exp2", "site=abci", "scale=null", "site.wall_time=1:00:00")
OF_IMAGENET: dict[str, Any] = {"validation_images": 50_000, "loop_time_s": 224.0}


def measured(top: Path) -> Group:
    return report.gather_runs(report.folders([str(top)], top / "report"), ["exp2"]).measured["exp2"]


@pytest.mark.parametrize(
    "other", ["allreduce=ring", "allreduce.wire=fp32", "grid.vertical=68", "precision.loss_scale=1.0"]
)
def test_a_run_averaged_in_another_way_is_no_run_of_the_recipe(tmp_path: Path, other: str) -> None:
    finish(*add_run(tmp_path / "a", FULL), top1=75.0, **OF_IMAGENET)
    for name in ("b", "c"):
        finish(*add_run(tmp_path / name, [*FULL, other]), top1=70.0, **OF_IMAGENET)
    assert [record.folder for record in measured(tmp_path).records] == [str(tmp_path / "a")]


def test_a_run_of_more_workers_than_the_recipe_does_not_take_the_place_of_those_that_follow_it(tmp_path: Path) -> None:
    for seed in (0, 1):
        finish(*add_run(tmp_path / f"a-{seed}", [*FULL, f"seed={seed}"]), top1=75.0 + seed, **OF_IMAGENET)
    more = [
        "workers=4352",
        "recipe.stages=[{start_epoch: 0, per_worker_batch: 8}, {start_epoch: 30, per_worker_batch: 16}]",
    ]
    finish(*add_run(tmp_path / "b", [*FULL, *more]), top1=10.0, **OF_IMAGENET)
    assert measured(tmp_path).top1 == 75.5


def test_scale_models_of_two_scales_are_not_put_together(tmp_path: Path) -> None:
    finish(*add_run(tmp_path / "a", ["exp=goyal"]), top1=97.0)
    finish(*add_run(tmp_path / "b", ["exp=goyal", "scale=272"]), top1=50.0)
    found = report.gather_runs(report.folders([str(tmp_path)], tmp_path / "report"), ["goyal"]).scale_models["goyal"]
    assert len(found.records) == 1


def test_a_run_without_its_curve_is_told_of_and_does_not_take_the_others_curves_away(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        folder, plan = add_run(tmp_path / f"a-{seed}", ["exp=exp5", f"seed={seed}"])
        finish(folder, plan, top1=97.0)
        if seed == 1:
            folder.metrics.unlink()
        if seed == 2:
            folder.metrics.write_bytes(bytes(range(256)))
    material = report.gather_runs(report.folders([str(tmp_path)], tmp_path / "report"), ["exp5"])
    assert list(material.curves) == [str(tmp_path / "a-0")]
    why = "its curve: metrics.jsonl has no error of 90 of its 90 epochs"
    assert material.left_out == ((str(tmp_path / "a-1"), why), (str(tmp_path / "a-2"), why))
