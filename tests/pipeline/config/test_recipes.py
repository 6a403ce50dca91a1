"""The recipes of the paper's other systems, and LR and momentum of all: the numbers here are copied from the papers."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs import compose as composing
from jobs.compose import choices_of, compose
from jobs.executor import script
from jobs.job import make_job
from jobs.render import STAND_INS
from jobs.scheduler import find
from pipeline.config import make_plan
from pipeline.estimate.run import Model
from pipeline.optim.schedule import learning_rate
from pipeline.run_folder import RunFolder


@dataclass(frozen=True)
class Row:
    """Full size, then the scale model: workers, grid, batches, updates an epoch and in all; LR by epoch."""

    gpus: int
    grid: tuple[int, int]
    total_batches: list[int]
    updates_per_epoch: list[int]
    updates: int
    lr: Mapping[float, float]
    scale_workers: int
    scale_grid: tuple[int, int]
    scale_samples: int
    scale_batches: list[int]
    scale_updates_per_epoch: list[int]
    scale_lr: float = 1.0
    """LR of the scale model for one of the paper."""


GOYAL = {0: 0.1, 2.5: 1.65, 5: 3.2, 29.9: 3.2, 30: 0.32, 60: 0.032, 80: 0.0032}
SMITH = {0: 0.1, 2.5: 1.65, 5: 3.2, 30: 3.2, 59.9: 3.2, 60: 0.32, 80: 0.032}
AKIBA = {0: 6.4, 39.9: 6.4, 40: 0.96, 70: 0.128, 85: 0.0128}
KUMAR = {0: 0.1, 2.5: 3.25, 5: 6.4, 30: 0.64, 60: 0.064, 80: 0.0064}
HE = {0: 0.1, 29.9: 0.1, 30: 0.01, 60: 0.001, 80: 0.0001}
LARS = {0: 0.0, 2.5: 1.55, 5: 3.1, 47.5: 0.775, 73: 3.1 * 0.04, 90: 0.0}

TABLE = {
    "he": Row(8, (1, 8), [256], [5005], 450450, HE, 1, (1, 1), 2355, [32], [74], 32 / 256),
    "goyal": Row(256, (32, 8), [8192], [157], 14130, GOYAL, 1, (1, 1), 2355, [16], [148], 16 / 8192),
    "smith": Row(256, (32, 8), [8192, 16384], [157, 79], 9450, SMITH, 1, (1, 1), 2355, [16, 30], [148, 79], 16 / 8192),
    "akiba": Row(1024, (128, 8), [32768], [40], 3600, AKIBA, 2, (1, 2), 2502, [64], [40], 64 / 32768),
    "jia": Row(2048, (256, 8), [65536], [20], 1800, LARS, 4, (2, 2), 2502, [128], [20]),
    "kumar": Row(256, (64, 4), [16384], [79], 7110, KUMAR, 1, (1, 1), 2355, [30], [79], 30 / 16384),
}

MIKAMI = ("reference", "exp1", "exp2", "exp3", "exp4", "exp5", "exp6", "flash")


@pytest.mark.parametrize("name", TABLE)
def test_at_full_size_a_recipe_is_its_papers(name: str) -> None:
    row, config = TABLE[name], compose([f"exp={name}", "scale=null"])
    plan = make_plan(config)
    assert (plan.workers, plan.grid.vertical, plan.grid.horizontal) == (row.gpus, *row.grid)
    assert (plan.samples, plan.epochs, plan.updates) == (1_281_167, 90, row.updates)
    assert [stage.total_batch for stage in plan.stages] == row.total_batches
    assert [stage.updates_per_epoch for stage in plan.stages] == row.updates_per_epoch
    assert {stage.momentum for stage in plan.stages} == {0.9}
    found = {epoch: learning_rate(config.optim, plan, epoch) for epoch in row.lr}
    assert found == pytest.approx(row.lr, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", TABLE)
def test_a_scale_model_has_its_share_of_images_and_lr_follows_its_batch(name: str) -> None:
    row, config = TABLE[name], compose([f"exp={name}"])
    plan = make_plan(config)
    assert (plan.workers, plan.grid.vertical, plan.grid.horizontal) == (row.scale_workers, *row.scale_grid)
    assert plan.samples == row.scale_samples
    assert [stage.total_batch for stage in plan.stages] == row.scale_batches
    assert [stage.updates_per_epoch for stage in plan.stages] == row.scale_updates_per_epoch
    found = {epoch: learning_rate(config.optim, plan, epoch) for epoch in row.lr}
    expected = {epoch: lr * row.scale_lr for epoch, lr in row.lr.items()}
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", MIKAMI)
@pytest.mark.parametrize("words", [[], ["scale=null"]])
def test_lars_keeps_the_papers_lr_at_any_scale_and_batch(name: str, words: list[str]) -> None:
    config = compose([f"exp={name}", *words])
    plan = make_plan(config)
    found = {epoch: learning_rate(config.optim, plan, epoch) for epoch in LARS}
    assert found == pytest.approx(LARS, rel=1e-9, abs=1e-12)


def test_every_recipe_is_in_a_table() -> None:
    assert set(choices_of("exp")) == {*TABLE, *MIKAMI, "scaling"}


def test_each_has_what_its_paper_is_about() -> None:
    he, goyal, akiba, jia, kumar = (compose([f"exp={name}"]) for name in ("he", "goyal", "akiba", "jia", "kumar"))
    assert (he.optim.nesterov, he.optim.warmup_epochs, he.model.zero_last_gamma) == (False, 0, False)
    assert (goyal.optim.nesterov, goyal.optim.momentum_correction, goyal.model.zero_last_gamma) == (True, True, True)
    assert (akiba.recipe.batch_norm, akiba.allreduce.wire) == ("last_batch", "fp16")
    assert (jia.allreduce.name, jia.optim.name) == ("hybrid", "lars")
    assert (kumar.allreduce.name, kumar.allreduce.colors, kumar.data.placement) == ("multicolor", 4, "partitioned")
    at_cluster = compose(["exp=jia", "site=slurm"], stand_ins=STAND_INS)
    assert (at_cluster.precision.compute, at_cluster.allreduce.wire) == ("fp16", "fp16")


def test_another_all_reduce_can_be_asked_for() -> None:
    assert compose(["exp=kumar", "allreduce=torus"]).allreduce.name == "torus"


def edited(conf: Path, name: str, cells: Mapping[str, str]) -> None:
    """Change cells of a recipe's file as its reader would."""
    path = conf / "exp" / f"{name}.yaml"
    text = path.read_text()
    for old, new in cells.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text)


def test_a_changed_cell_changes_everything_that_depends_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(repository / "conf", conf, ignore=shutil.ignore_patterns("user.yaml"))
    monkeypatch.setattr(composing, "CONF", conf)
    edited(conf, "kumar", {"workers: 256 ": "workers: 512 ", "vertical: 64": "vertical: 128"})
    edited(conf, "exp3", {"workers: 2720": "workers: 4352", "horizontal: 80": "horizontal: 128"})
    config = compose(["exp=kumar", "site=abci"], stand_ins=STAND_INS)
    plan = make_plan(config)
    assert [stage.total_batch for stage in plan.stages] == [32768]
    assert (str(plan.grid), plan.updates, plan.peak_lr) == ("128x4", 90 * 40, 12.8)
    run = Model(config).run()
    assert (run.nodes, run.stages[0].updates) == (128, 90 * 40)
    job = make_job(config, RunFolder(tmp_path / "run"), repository)
    assert "rt_F=128" in script(job, find("gridengine"))
    assert [stage.total_batch for stage in make_plan(compose(["exp=kumar"])).stages] == [60]  # 32,768 / 544
    small = make_plan(compose(["exp=exp3"]))
    assert (small.workers, [stage.updates_per_epoch for stage in small.stages]) == (8, [19, 10])
    # 1 - 0.1 * 34,816 / (4352 * 16), and of 32
    assert [stage.momentum for stage in small.stages] == pytest.approx([0.95, 0.975])
