"""Composition: every experiment, and one line with the nearest valid key for what the schema does not know."""

import shutil
import sys
from pathlib import Path

import pytest

from jobs import batch, compose, prepare, submit
from pipeline.config import Config
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder

REFUSED = {
    "optim.lrr=2": "unknown key optim.lrr; did you mean optim.lr?",
    "site.network.rack.gb_per_s=3": "site.network.rack.gb_per_s=3: a rack is given whole, in a site's file",
    "seeed=3": "unknown key seeed; did you mean seed?",
    "+optim.momentun=3": "unknown key optim.momentun; did you mean optim.momentum?",
    "lr=3": "unknown key lr; did you mean optim.lr?",
    "foo=3": "unknown key foo; the keys are those of conf/config.yaml",
    "exp=5": "exp=5: no such choice; did you mean exp5?",
    "exp=exp7": "exp=exp7: no such choice; did you mean exp6?",
    "allreduce=toros": "allreduce=toros: no such choice; did you mean torus?",
    "optim.lr=fast": "optim.lr: Value 'fast' of type 'str' could not be converted to Float",
    "workers=2.5": "workers: Value '2.5' of type 'float' could not be converted to Integer",
    "optim.lr===": "overrides look like optim.lr=2.0",
    "seed=1,2": "a list makes several runs, which only `make sweep EXP=…` starts",
    "nonsense": "overrides look like optim.lr=2.0",
    "data=imagenet": "data.path has no value; give it by DATA=… or data.path=… in ARGS",
    "site=abci3": "site.account, data.path and container.image have no value; "
    "give GROUP=… DATA=… IMAGE=…, or set them in conf/user.yaml",
    "exp=exp5 6": "exp=exp5 6: no such choice; there are akiba, exp1,",
    "exp=../exp5": "exp=../exp5: no such choice; there are akiba, exp1,",
    "site=_gpu_cluster": "site=_gpu_cluster: no such choice; there are abci,",
    "recipe.stages=[{start_epoch:0,per_worker_batch:16,x:3}]": "x",
    "optim.levels.9.factor=1": "optim.levels.9: optim.levels has no entry 9; they count from 0",
    "model.widths.9=1": "model.widths.9: model.widths has no entry 9; they count from 0",
    "recipe.stages.x.start_epoch=1": "recipe.stages is a list, whose entries are recipe.stages.0, recipe.stages.1",
    "recipe.stages=[1]": "recipe.stages[0]=1: it is a group of keys, {start_epoch: …}",
    "recipe.grid=3": "recipe.grid=3: it is a group of keys, vertical, horizontal",
}


@pytest.mark.parametrize("word", REFUSED)
def test_it_is_refused_in_one_line(word: str) -> None:
    with pytest.raises(UserError) as caught:
        compose.compose([word])
    assert REFUSED[word] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_file_of_exp_composes() -> None:
    names = [path.stem for path in (compose.CONF / "exp").glob("*.yaml") if not path.stem.startswith("_")]
    others = {"he", "goyal", "smith", "akiba", "jia", "kumar"}
    assert set(names) == {"reference", "flash", "scaling", *(f"exp{number}" for number in range(1, 7)), *others}
    for name in names:
        assert compose.compose([f"exp={name}"]).experiment == name


@pytest.mark.parametrize("name", ["torus", "native"])
def test_an_all_reduce_is_a_choice(name: str) -> None:
    assert compose.compose([f"allreduce={name}"]).allreduce.name == name


def test_imagenet_takes_resnet50_and_mirrors() -> None:
    config = compose.compose(["data=imagenet", "model=resnet50", "data.path=/imagenet", "scale=null"])
    assert (config.data.mirror, config.data.image_size, config.model.classes) == (True, 224, 1000)


@pytest.fixture
def conf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A conf/ of one's own."""
    shutil.copytree(compose.CONF, tmp_path / "conf", ignore=shutil.ignore_patterns("user.yaml"))
    monkeypatch.setattr(compose, "CONF", tmp_path / "conf")
    return tmp_path / "conf"


def test_a_mistake_in_an_experiments_file_is_told_with_the_file(conf: Path) -> None:
    path = conf / "exp" / "exp4.yaml"
    path.write_text(path.read_text().replace("vertical: 34", "vertical: 33"))
    line = "recipe.grid is 33x96 = 3168 workers; recipe.workers is 3264"
    with pytest.raises(UserError, match=rf"^conf/exp/exp4\.yaml: {line}"):
        compose.compose(["exp=exp4"])
    with pytest.raises(UserError, match=r"^recipe\.grid is 33x9 "):  # by a word, not by the file
        compose.compose(["exp=exp4", "recipe.grid.horizontal=9"])
    path.write_text("")
    with pytest.raises(UserError, match=r"unknown key exp; the file of conf/exp/ that is chosen is empty, or does not"):
        compose.compose(["exp=exp4"])


USER = "data: {path: /mine}\nsite: {account: me}\ncontainer: {image: /my.sif}\noptim: {lr: 2.5}\n"


def test_user_yaml_is_read_where_it_stands_and_the_command_line_is_stronger(conf: Path) -> None:
    (conf / "user.yaml").write_text(USER)
    assert compose.compose(["site=abci3"]).data.path == "/mine"
    assert compose.compose(["site=abci3", "data.path=/now"]).data.path == "/now"
    assert compose.compose([]).optim.lr == 2.5
    assert compose.compose(["optim.lr=1.5"]).optim.lr == 1.5


def test_what_only_the_user_knows_fills_gaps_and_leaves_the_sample_and_a_run_without_an_image_alone(conf: Path) -> None:
    (conf / "user.yaml").write_text(USER)
    here, there = compose.compose([]), compose.compose(["site=abci3"])
    assert (here.data.path, here.site.account, here.container.image) == ("data/sample", None, None)
    assert (there.data.path, there.site.account, there.container.image) == ("/mine", "me", "/my.sif")


def test_an_account_of_user_yaml_holds_for_a_cluster_that_may_need_none_but_not_against_a_word(conf: Path) -> None:
    (conf / "user.yaml").write_text(USER)
    assert compose.compose(["site=slurm"]).site.account == "me"
    assert compose.compose(["site=slurm", "site.account=null"]).site.account is None


def test_the_application_reads_user_yaml_by_the_same_rule(
    conf: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = []

    def create(config: Config, *_: object) -> RunFolder:
        found.append((config.data.path, config.site.account, config.optim.lr))
        raise UserError("seen")

    (conf / "user.yaml").write_text(USER)
    monkeypatch.setattr(prepare, "create", create)
    monkeypatch.setattr(batch, "make", create)
    monkeypatch.chdir(tmp_path)
    for words in ([], ["data=imagenet"], ["site=slurm", "data.path=/now"]):
        monkeypatch.setattr(sys, "argv", ["submit", *words])
        assert submit.main() == 1
    assert found == [("data/sample", None, 2.5), ("/mine", None, 2.5), ("/now", "me", 2.5)]


def test_a_user_yaml_that_is_no_yaml_is_one_line(conf: Path) -> None:
    (conf / "user.yaml").write_text("data: [\n")
    with pytest.raises(UserError, match=r"not valid YAML: .*user.yaml") as caught:
        compose.compose([])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("optim: {lrr: 2}", "unknown key optim.lrr; did you mean optim.lr?"),
        ("seed: x", "conf/user.yaml: seed: Value 'x'"),
    ],
)
def test_what_is_wrong_in_user_yaml_is_named(conf: Path, text: str, line: str) -> None:
    (conf / "user.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        compose.compose([])
    assert str(caught.value).startswith(line.replace("CONF", str(conf)))


MINE = "# @package _global_\ndefaults: [_gpu_cluster, _self_]\nsite: {name: mine, scheduler: slurm, account: %s, %s}\n"
WORKER = "worker: {gb_per_s: 3, latency_us: 3}"


@pytest.mark.parametrize(
    ("account", "text", "line"),
    [
        (
            "null",
            f"workers_per_node: 4, network: {{{WORKER}, node: {{latency_us: 3}}}}",
            "site.network.node.gb_per_s has no value; give it in conf/site/mine.yaml, in ARGS or in conf/user.yaml",
        ),
        (
            "'???'",
            f"workers_per_node: 4, network: {{{WORKER}, node: {{latency_us: 3}}}}",
            "site.account and site.network.node.gb_per_s have no value; give GROUP=…, or set it in conf/user.yaml; "
            "the others in conf/site/mine.yaml, in ARGS or in conf/user.yaml",
        ),
        (
            "null",
            "workers_per_node: four",
            "conf/site/mine.yaml: site.workers_per_node: Value 'four' of type 'str' could not be converted to Integer",
        ),
    ],
)
def test_what_a_file_of_a_site_lacks_or_has_wrong_names_the_file(
    conf: Path, account: str, text: str, line: str
) -> None:
    (conf / "site" / "mine.yaml").write_text(MINE % (account, text))
    with pytest.raises(UserError) as caught:
        compose.compose(["site=mine", "data.path=/x"])
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "site.device has no value; give it in conf/site/mine.yaml, in ARGS or in conf/user.yaml"),
        (
            "site: {name: mine}\n",
            "unknown key site.site; a file of conf/site/ with a site: in it begins with # @package _global_",
        ),
    ],
)
def test_a_file_of_a_site_that_is_no_profile_is_told_what_it_lacks(conf: Path, text: str, line: str) -> None:
    (conf / "site" / "mine.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        compose.compose(["site=mine", "data.path=/x"])
    assert str(caught.value) == line
