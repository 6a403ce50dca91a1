"""The plan of every experiment against the table of the papers: the numbers here are copied from it, not computed."""

from dataclasses import dataclass, field

import pytest

from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.errors import UserError


@dataclass(frozen=True)
class Row:
    """A column of the table: GPUs, grid, per-worker batches, updates an epoch, momentum, and the scale model's."""

    gpus: int
    grid: tuple[int, int]
    batches: list[int]
    total_batches: list[int]
    updates_per_epoch: list[int]
    updates: int
    momentum: list[float]
    scale_workers: int
    scale_grid: tuple[int, int]
    scale_samples: int = 2355
    starts: list[int] = field(default_factory=list)


TABLE = {
    "reference": Row(1088, (34, 32), [32], [34816], [37], 3330, [0.900], 2, (1, 2), starts=[0]),
    "exp1": Row(1632, (34, 48), [16, 32], [26112, 52224], [50, 25], 3000, [0.867, 0.933], 3, (1, 3), starts=[0, 30]),
    "exp2": Row(2176, (34, 64), [16, 32], [34816, 69632], [37, 19], 2250, [0.900, 0.950], 4, (2, 2), starts=[0, 30]),
    "exp3": Row(2720, (34, 80), [16, 32], [43520, 87040], [30, 15], 1800, [0.920, 0.960], 5, (1, 5), starts=[0, 30]),
    "exp4": Row(3264, (34, 96), [16, 32], [52224, 104448], [25, 13], 1530, [0.933, 0.967], 6, (2, 3), starts=[0, 30]),
    "exp5": Row(
        2176, (34, 64), [16, 32, 56], [34816, 69632, 121856], [37, 19, 11], 2010, [0.900, 0.950, 0.971], 4, (2, 2),
        starts=[0, 30, 60],
    ),
    "exp6": Row(
        2176, (34, 64), [16, 32, 64], [34816, 69632, 139264], [37, 19, 10], 1980, [0.900, 0.950, 0.975], 4, (2, 2),
        starts=[0, 30, 60],
    ),
    "flash": Row(3456, (48, 72), [16], [55296], [24], 2160, [0.937], 6, (2, 3), scale_samples=2224, starts=[0]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_at_full_size_an_experiment_is_the_papers(name: str) -> None:
    row, plan = TABLE[name], make_plan(compose([f"exp={name}", "scale=null"]))
    assert (plan.workers, plan.grid.vertical, plan.grid.horizontal) == (row.gpus, *row.grid)
    assert plan.samples == 1_281_167
    assert plan.epochs == 90
    assert [stage.start_epoch for stage in plan.stages] == row.starts
    assert [stage.per_worker_batch for stage in plan.stages] == row.batches
    assert [stage.total_batch for stage in plan.stages] == row.total_batches
    assert [stage.updates_per_epoch for stage in plan.stages] == row.updates_per_epoch
    assert plan.updates == row.updates
    assert [round(stage.momentum, 3) for stage in plan.stages] == row.momentum


@pytest.mark.parametrize("name", TABLE)
def test_the_scale_model_lives_what_one_worker_of_the_paper_lives(name: str) -> None:
    row, plan = TABLE[name], make_plan(compose([f"exp={name}"]))
    assert (plan.workers, plan.grid.vertical, plan.grid.horizontal) == (row.scale_workers, *row.scale_grid)
    assert plan.samples == row.scale_samples
    assert [stage.per_worker_batch for stage in plan.stages] == row.batches
    assert [stage.updates_per_epoch for stage in plan.stages] == row.updates_per_epoch
    assert plan.updates == row.updates
    assert [round(stage.momentum, 3) for stage in plan.stages] == row.momentum


def test_flash_smooths_labels_and_the_others_do_not() -> None:
    smoothing = {name: compose([f"exp={name}"]).recipe.label_smoothing for name in TABLE}
    assert {name for name, value in smoothing.items() if value} == {"flash"}
    assert smoothing["flash"] == 0.1


def test_lars_has_the_papers_constants() -> None:
    optim = compose(["exp=exp5"]).optim
    assert (optim.coefficient, optim.eps, optim.warmup_epochs, optim.weight_decay) == (0.01, 1e-6, 5, 1e-4)


def test_exp5_on_16_gpus_takes_136_micro_batches() -> None:
    plan = make_plan(compose(["exp=exp5", "scale=null", "workers=16"]))
    assert {stage.micro_batches for stage in plan.stages} == {136}
    assert [stage.per_worker_batch for stage in plan.stages] == [16, 32, 56]
    assert [stage.total_batch for stage in plan.stages] == [34816, 69632, 121856]


def test_more_real_workers_than_virtual_ones_shrink_the_batch() -> None:
    plan = make_plan(compose(["exp=exp5", "workers=8"]))
    assert [stage.per_worker_batch for stage in plan.stages] == [8, 16, 28]
    assert [stage.total_batch for stage in plan.stages] == [64, 128, 224]
    assert {stage.micro_batches for stage in plan.stages} == {1}


def test_workers_that_cannot_do_it_are_told_which_can() -> None:
    with pytest.raises(UserError, match=r"1024 workers can neither divide .* 1632 .*: 816, 544, 1632, 408"):
        compose(["exp=exp1", "scale=null", "workers=1024"])


def test_nodes_are_named_where_the_site_has_a_number_of_workers_a_node() -> None:
    words = ["exp=exp1", "scale=null", "site.workers_per_node=8", "nodes=128"]
    with pytest.raises(UserError, match=r"816 \(102 nodes\), 544 \(68 nodes\)"):
        compose(words)


def test_contradicting_numbers_of_workers_are_refused() -> None:
    with pytest.raises(UserError, match=r"workers=4 asks for 4, grid 2x4 asks for 8"):
        compose(["workers=4", "grid.vertical=2", "grid.horizontal=4"])


def test_a_side_of_the_grid_that_does_not_divide_is_told_which_do() -> None:
    with pytest.raises(UserError, match=r"grid.vertical=3 does not divide 4 workers; these do: 1, 2, 4"):
        compose(["grid.vertical=3"])


def test_one_side_of_the_grid_gives_the_other() -> None:
    plan = make_plan(compose(["grid.vertical=1"]))
    assert (plan.grid.vertical, plan.grid.horizontal) == (1, 4)


@pytest.mark.parametrize(("update", "epoch", "inside"), [(0, 0, 0), (36, 0, 36), (37, 1, 0), (1109, 29, 36)])
def test_positions_in_the_first_stage(update: int, epoch: int, inside: int) -> None:
    assert make_plan(compose(["exp=exp5"])).position(update) == (epoch, inside)


@pytest.mark.parametrize(("update", "epoch", "inside"), [(1110, 30, 0), (1679, 59, 18), (1680, 60, 0), (2009, 89, 10)])
def test_positions_after_a_switch(update: int, epoch: int, inside: int) -> None:
    assert make_plan(compose(["exp=exp5"])).position(update) == (epoch, inside)


def test_first_update_of_an_epoch_and_updates_by_stage() -> None:
    plan = make_plan(compose(["exp=exp5"]))
    assert [plan.first_update(epoch) for epoch in (0, 1, 30, 31, 60, 90)] == [0, 37, 1110, 1129, 1680, 2010]
    assert plan.updates_by_stage() == [1110, 570, 330]
    assert plan.updates_by_stage(1200) == [1110, 90, 0]
