"""Every contradiction of a configuration is one line that says what would be right."""

from pathlib import Path

import pytest

from jobs.compose import compose
from pipeline.allreduce.hook import SCHEMES
from pipeline.config import check, check_data, checks
from pipeline.config.checks import ALL_REDUCES
from pipeline.config.site import LinkConfig
from pipeline.errors import UserError

REFUSED = {
    "optim.lr=-1": "optim.lr=-1.0: must be above 0",
    "optim.lr=nan": "optim.lr=nan: must be a finite number",
    "optim.lr=inf": "must be a finite number",
    "data.mean=[nan,0,0]": "must be a finite number",
    "data.std=[0,1,1]": "must be above 0",
    "seed=18446744073709551616": "must be at most",
    "model.stem=0": "each must be at least 1",
    "precision.loss_scale=1e-42": "must be at least 2..-24",
    "optim.momentum_reference_batch=0": "must be at least 1",
    "optim.warmup_epochs=90": "warm-up must be shorter",
    "optim.momentum=1": "must be from 0 to below 1",
    "optim.name=adam": "there are lars, sgd, rmsprop_warmup",
    "optim.name=rmsprop_warmup": "optim.name=rmsprop_warmup needs optim.rms_lr, which has no value",
    "optim.coefficient=null": "optim.name=lars needs optim.coefficient, which has no value",
    "optim.eps=0": "optim.eps=0.0: must be above 0",
    "optim.schedule=cosine": "there are polynomial, step, slow_start",
    "optim.schedule=step": "optim.schedule=step needs optim.decay_factor, which has no value",
    "optim.schedule=slow_start": r"optim.levels start at epochs \[\]: the first starts at 0",
    "optim.decay_power=null": "optim.schedule=polynomial needs optim.decay_power, which has no value",
    "optim.decay_factor=1": "optim.decay_factor=1.0: must be below 1",
    "optim.nesterov=true": "optim.nesterov=true belongs to optim.name=sgd; lars has its own momentum",
    "optim.no_decay=[biases]": "optim.no_decay=biases: no such choice, did you mean bias",
    "optim.lr_reference_batch=0": "must be at least 1",
    "optim.warmup_lr=-1": "must be at least 0",
    "recipe.batch_norm=last": "there are moving_average, last_batch",
    "recipe.smallest_scale_batch=0": "must be at least 1",
    "recipe.label_smoothing=1": "must be from 0 to below 1",
    "recipe.epochs=60": "the last before the end of the run",
    "recipe.stages=[]": "the first starts at 0",
    "recipe.stages=[{start_epoch:1,per_worker_batch:16}]": "the first starts at 0",
    "recipe.stages=[{start_epoch:0,per_worker_batch:0}]": "must be at least 1",
    "recipe.stages=[{start_epoch:0,per_worker_batch:1}]": "momentum would be below 0",
    "recipe.workers=2177": "recipe.grid is 34x64 = 2176 workers; recipe.workers is 2177",
    "allreduce.name=tors": "did you mean torus",
    "allreduce.wire=fp8": "there are fp16, bf16, fp32",
    "allreduce.chunk_kb=0": "allreduce.chunk_kb=0: must be at least 1",
    "allreduce.colors=0": "allreduce.colors=0: must be at least 1",
    "allreduce.ring_from_kb=-1": "allreduce.ring_from_kb=-1: must be at least 0",
    "allreduce.timeout_s=0": "allreduce.timeout_s=0.0: must be above 0",
    "allreduce.candidates=[torus,rign]": "allreduce.candidates=rign: no such choice, did you mean ring",
    "allreduce.candidates=[auto]": "allreduce.candidates=auto: no such choice",
    "allreduce.name=auto": "allreduce.candidates is empty, so there is nothing to measure",
    "site.network.node.gb_per_s=0": "site.network.node.gb_per_s=0.0: must be above 0",
    "site.network.node.gb_per_s=25e9": "node.gb_per_s=2.5e\\+10: must be from 1e-06 to 100000, in 1e9 bytes a second",
    "site.network.node.latency_us=1e9": "latency_us=1e\\+09: must be at most 1e\\+07, which is ten seconds",
    "site.hardware.speeds=[{precision:fp16,batch:8,images_per_s:1e-320}]": "images_per_s=.*: must be from 0.001 to",
    "site.hardware.speeds=[{precision:fp16,batch:8,images_per_s:7},{precision:fp16,batch:8,images_per_s:9}]": (
        "speeds.1.: resnet50 on 224 pixels in fp16 at 8 images stands there already"
    ),
    "data.sample_kb=1e300": "data.sample_kb=1e\\+300: must be from 0.001 to 1e\\+06, in 1e3 bytes",
    "site.network.worker.latency_us=-1": "site.network.worker.latency_us=-1.0: must be at least 0",
    "site.network.nodes_per_rack=34": "site.network.rack and site.network.nodes_per_rack go together",
    "site.backend=nccl": "needs site.device=cuda",
    "model.widths=[8,16,32]": "3 layers and model.blocks",
    "data.window.area=[0.5,1.5]": "shares of the image's area",
    "data.window.ratio=[1]": "give .smallest,largest.",
    "data.validation_crop=1.1": "at most 1",
    "data.mean=[0]": "one each for red, green and blue",
    "data.decoder=dalli": "did you mean dali",
    "data.decoder_threads=0": "must be at least 1",
    "site.decoder_threads=0": "must be at least 1",
    "data.decoder_threads=1025": "must be at most 1024",
    "data.decode_on=gpu": "there are cpu, cuda",
    "data.decode_on=cuda": "data.decode_on=cuda needs site.device=cuda",
    "data.on_bad_sample=skip": "there are refuse, replace",
    "run.agree_every_updates=0": "must be at least 1",
    "nodes=2": "site local is one machine",
    "run.dir=": "run.dir is empty; name a path",
    "run.dir='~/zz'": "run.dir=~/zz: ~ is a home folder for a shell only",
    "data.path='~/zz'": "data.path=~/zz: ~ is a home folder for a shell only",
    "workers=0": "must be at least 1",
    "recipe.workers=1000000000000000000000000000000": "recipe.workers=10{30}: must be at most 1000000",
    "workers=1000001": "workers=1000001: must be at most 1000000",
    "grid.vertical=1000001": "must be at most 1000000",
    "recipe.epochs=1000001": "must be at most 1000000",
    "recipe.stages=[{start_epoch:0,per_worker_batch:1000001}]": "must be at most 1000000",
    "seed=-1": "must be at least 0",
    "scale=0": "must be at least 1",
}


@pytest.mark.parametrize("word", REFUSED)
def test_it_is_refused_in_one_line(word: str) -> None:
    with pytest.raises(UserError, match=REFUSED[word]) as caught:
        compose([word])
    assert "\n" not in str(caught.value)


OF_OTHER_RECIPES = {
    (
        "exp=goyal",
        "optim.milestones=[]",
    ): "optim.milestones=.*: epochs at which LR falls, rising, after the warm-up .5.",
    ("exp=goyal", "optim.milestones=[60,30]"): "optim.milestones=.60,30.: epochs",
    ("exp=goyal", "optim.milestones=[2,30]"): "after the warm-up .5.",
    ("exp=goyal", "optim.milestones=[30,90]"): "before the end of the run .90.",
    ("exp=goyal", "optim.momentum=0"): "needs an optim.momentum above 0",
    ("exp=akiba", "optim.levels=[{start_epoch:1,factor:1}]"): "optim.levels start at epochs .1.: the first starts at 0",
    ("exp=akiba", "optim.levels=[{start_epoch:0,factor:0}]"): "factor=0.0: a share of the peak LR, above 0",
}


@pytest.mark.parametrize("words", OF_OTHER_RECIPES)
def test_so_is_what_another_recipe_contradicts(words: tuple[str, str]) -> None:
    with pytest.raises(UserError, match=OF_OTHER_RECIPES[words]) as caught:
        compose(words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rack", "nodes_per_rack", "reason"),
    [
        (LinkConfig(0.0, 5.0), 34, "site.network.rack.gb_per_s=0.0: must be above 0"),
        (LinkConfig(100.0, -5.0), 34, "site.network.rack.latency_us=-5.0: must be at least 0"),
        (LinkConfig(100.0, 5.0), None, "go together"),
        (LinkConfig(100.0, 5.0), 0, "site.network.nodes_per_rack=0: must be at least 1"),
    ],
)
def test_a_racks_uplink_is_a_link_and_has_nodes(rack: LinkConfig, nodes_per_rack: int | None, reason: str) -> None:
    config = compose([])
    config.site.network.rack, config.site.network.nodes_per_rack = rack, nodes_per_rack
    with pytest.raises(UserError, match=reason):
        check(config)
    config.site.network.rack, config.site.network.nodes_per_rack = LinkConfig(100.0, 5.0), 34
    check(config)


@pytest.mark.parametrize("name", ALL_REDUCES)
def test_every_all_reduce_has_a_file_of_its_own(name: str) -> None:
    assert compose([f"allreduce={name}"]).allreduce.name == name


def test_auto_measures_what_its_file_names() -> None:
    assert set(compose(["allreduce=auto"]).allreduce.candidates) <= set(ALL_REDUCES)


def test_there_are_as_many_names_as_all_reduces() -> None:
    assert set(ALL_REDUCES) == set(SCHEMES)


def test_threads_and_the_device_that_decode_are_the_sites() -> None:
    here, there = compose([]), compose(["site=slurm", "data.path=/data"])
    assert (here.data.decoder_threads, here.data.decode_on) == (1, "cpu")
    assert (there.data.decoder_threads, there.data.decode_on) == (there.site.decoder_threads, "cuda")
    assert there.site.decoder_threads > 1
    asked = compose(["site=slurm", "data.path=/data", "data.decoder_threads=3", "data.decode_on=cpu"])
    assert (asked.data.decoder_threads, asked.data.decode_on) == (3, "cpu")


def test_a_missing_data_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such folder; DATA= or data.path= names another$"):
        check_data(tmp_path / "absent")


def test_only_where_the_sample_lies_is_make_sample_the_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SAMPLE", tmp_path / "data" / "sample")
    with pytest.raises(UserError, match=r"no such folder; `make sample` makes the sample$"):
        check_data(tmp_path / "data" / "sample")


def test_a_folder_without_shards_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not prepared shards"):
        check_data(tmp_path)
