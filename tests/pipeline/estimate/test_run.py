"""Whole runs: by hand where a sum is short, against the paper's figures where there are some."""

import pytest

from jobs.compose import compose
from jobs.render import STAND_INS
from pipeline.errors import UserError
from pipeline.estimate.averaging import Averaged
from pipeline.estimate.buckets import Bucket
from pipeline.estimate.fitted_wall_time import fitted
from pipeline.estimate.prediction import predict
from pipeline.estimate.run import Bracket, Model, samples
from pipeline.estimate.speed import Speed
from pipeline.estimate.step import step


def model(*words: str) -> Model:
    return Model(compose(words, stand_ins=STAND_INS))


def test_a_bucket_waits_for_its_gradients_and_for_the_bucket_before() -> None:
    # Forward 1 s, backward 2 s. The first bucket is there after 1 + 2/4 s and takes 1 s, so until 2.5; the second is
    # there at 2 and begins at 2.5, until 3.5; the third is there at 3 and begins at 3.5, until 3.8.
    buckets = [Bucket(1, 0.25), Bucket(1, 0.5), Bucket(1, 1.0)]
    found = step(3.0, 1, 1 / 3, buckets, [Averaged(1, time_s, 1) for time_s in (1.0, 1.0, 0.3)])
    assert found.no_overlap_s == pytest.approx(5.3)
    assert found.full_overlap_s == pytest.approx(3.8)


def test_gradients_are_averaged_beside_the_last_micro_batch_alone() -> None:
    buckets = [Bucket(1, 0.5), Bucket(1, 1.0)]
    one, four = (step(3.0, count, 1 / 3, buckets, [Averaged(1, 0.5, 1)] * 2) for count in (1, 4))
    assert four.compute_s == 12.0
    assert four.exposed_s == pytest.approx(one.exposed_s)


def test_a_speed_between_two_batches_is_on_the_line_of_times_and_beyond_them_the_nearest() -> None:
    speed = Speed((10, 30), (100.0, 150.0))  # 0.1 s and 0.2 s
    assert speed.seconds(20) == pytest.approx(0.15)
    assert speed.seconds(5) == pytest.approx(0.05)
    assert speed.seconds(60) == pytest.approx(0.4)
    assert [speed.is_measured(batch) for batch in (9, 10, 30, 31)] == [False, True, True, False]


def test_a_bracket_says_how_far_a_figure_lies_outside() -> None:
    bracket = Bracket(80.0, 90.0)
    assert [bracket.misfit(found) for found in (70.0, 80.0, 85.0, 93.0)] == [-10.0, 0.0, 0.0, 3.0]


def test_exp2_at_abci_has_the_papers_updates_and_a_site_without_speed_says_so() -> None:
    run = model("exp=exp2", "site=abci").run()
    assert (run.nodes, [one.updates for one in run.stages]) == (544, [1110, 1140])
    assert run.stages[1].step.compute_s == pytest.approx(32 / 769)
    assert run.placement == "partitioned"
    with pytest.raises(UserError, match=r"site slurm has no images/s of resnet50 on 224 pixels in fp16"):
        model("exp=exp2", "site=slurm")


@pytest.mark.parametrize("site", ["abci", "abci3"])
@pytest.mark.parametrize("name", ["he", "goyal", "smith", "akiba", "jia", "kumar"])
def test_every_recipe_can_be_estimated_at_the_papers_sites(name: str, site: str) -> None:
    run = model(f"exp={name}", f"site={site}").run()
    assert 0 < run.training_s.low <= run.training_s.high


def test_fewer_real_workers_take_micro_batches() -> None:
    run = model("exp=exp2", "site=abci", "nodes=34").run()
    assert [one.stage.micro_batches for one in run.stages] == [16, 16]
    assert run.stages[0].step.compute_s == pytest.approx(16 * 16 / 769)


def test_a_run_on_one_node_is_its_own_baseline() -> None:
    found = predict(compose(["exp=scaling", "site=abci", "nodes=1"], stand_ins=STAND_INS))
    assert found.run.efficiency == Bracket(100.0, 100.0)


def test_a_node_stages_all_samples_or_its_part_and_sends_what_is_another_nodes() -> None:
    few = model("exp=exp2", "site=abci", "nodes=16")
    placement, staged, moved = samples(few.config, few.plan, 16)
    assert (placement, moved) == ("replicated", 0)
    assert staged == pytest.approx((1_281_167 + 50_000 / 16) * 110e3)
    many = model("exp=exp2", "site=abci", "nodes=34")
    placement, staged, moved = samples(many.config, many.plan, 34)
    assert placement == "partitioned"
    assert staged == pytest.approx((1_281_167 + 50_000) / 34 * 110e3)
    assert moved == pytest.approx(1_281_167 / 34 * 110e3 * 33 / 34)


@pytest.mark.parametrize(("name", "percent"), [("reference", 91.62), ("exp4", 70.0), ("flash", 84.75)])
def test_the_papers_figure_stands_beside_the_estimate_of_its_size(name: str, percent: float) -> None:
    found = predict(compose([f"exp={name}", "site=abci"], stand_ins=STAND_INS))
    assert found.published_efficiency is not None
    assert found.published_efficiency.percent == percent
    assert found.efficiency_misfit == found.run.efficiency.misfit(percent)


def test_a_figure_of_one_machine_is_not_anothers() -> None:
    found = predict(compose(["exp=reference", "site=dgx_a100"], stand_ins=STAND_INS))
    assert (found.published_efficiency, found.efficiency_misfit) == (None, None)


def test_two_hundred_and_twenty_four_seconds_are_not_reached() -> None:
    # 2,250 updates take 86 to 99 s at 641 images/s, which the recipes' notes have; a misfit that is shown.
    words = ["exp=exp2", "site=abci", "site.hardware.speeds=[{precision:fp16,batch:32,images_per_s:641}]"]
    found = predict(compose(words, stand_ins=STAND_INS))
    assert found.run.training_s.low == pytest.approx(86, rel=0.03)
    assert found.run.training_s.high == pytest.approx(99, rel=0.06)
    assert found.time_misfit_s == pytest.approx(224 - found.run.training_s.high)


def test_the_wall_time_fits_the_estimate_unless_one_is_given() -> None:
    found = model("exp=exp2", "site=abci")
    assert found.config.site.wall_time == "0:20:00"
    assert fitted(found.config, found.run()) > 2.5 * found.run().total_s.high
    assert compose(["exp=exp2", "site=abci", "site.wall_time=2:00:00"], stand_ins=STAND_INS).site.wall_time == "2:00:00"
    assert compose(["exp=exp2", "site=slurm"], stand_ins=STAND_INS).site.wall_time == "1:00:00"
    assert compose(["exp=exp2", "site=abci", "workers=1"], stand_ins=STAND_INS).site.wall_time == "72:00:00"


def test_samples_pass_a_racks_uplink_only_where_there_is_another_rack() -> None:
    # 544 nodes: packing 0.9 GB/s is slower than a link of 25; a rack's 300 GB/s for 400 nodes are 0.75 for each.
    for in_rack, rate in ((544, 0.9e9), (400, 0.75e9)):
        found = model("exp=exp2", "site=abci", f"site.network.nodes_per_rack={in_rack}")
        moved = 1_281_167 / 544 * 110e3 * 543 / 544
        assert found.run().exchange_s.high == pytest.approx(90 * moved / rate)
