"""Composition: every experiment, and one line with the nearest valid key for what the schema does not know."""

import shutil
from pathlib import Path

import pytest

from jobs import compose
from pipeline.errors import UserError

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
    "seed=1,2": "a list makes several runs, which is `make sweep EXP=…`",
    "nonsense": "overrides look like optim.lr=2.0",
    "data=imagenet": "data.path has no value; give it by DATA=… or data.path=… in ARGS",
    "recipe.stages=[{start_epoch:0,per_worker_batch:16,x:3}]": "x",
}


@pytest.mark.parametrize("word", REFUSED)
def test_it_is_refused_in_one_line(word: str) -> None:
    with pytest.raises(UserError) as caught:
        compose.compose([word])
    assert REFUSED[word] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_file_of_exp_composes() -> None:
    names = [path.stem for path in (compose.CONF / "exp").glob("*.yaml") if not path.stem.startswith("_")]
    assert set(names) == {"reference", "flash", "scaling", *(f"exp{number}" for number in range(1, 7))}
    for name in names:
        assert compose.compose([f"exp={name}"]).experiment == name


@pytest.mark.parametrize("name", ["torus", "native"])
def test_an_all_reduce_is_a_choice(name: str) -> None:
    assert compose.compose([f"allreduce={name}"]).allreduce.name == name


def test_imagenet_takes_resnet50_and_mirrors() -> None:
    config = compose.compose(["data=imagenet", "model=resnet50", "data.path=/imagenet", "scale=null"])
    assert (config.data.mirror, config.data.image_size, config.model.classes) == (True, 224, 1000)


def test_user_yaml_is_read_where_it_stands_and_the_command_line_is_stronger(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(compose.CONF, tmp_path / "conf")
    (tmp_path / "conf" / "user.yaml").write_text("data: {path: /mine}\n")
    monkeypatch.setattr(compose, "CONF", tmp_path / "conf")
    assert compose.compose(["exp=exp5"]).data.path == "/mine"
    assert compose.compose(["exp=exp5", "data.path=/now"]).data.path == "/now"


def test_a_user_yaml_that_is_no_yaml_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(compose.CONF, tmp_path / "conf")
    (tmp_path / "conf" / "user.yaml").write_text("data: [\n")
    monkeypatch.setattr(compose, "CONF", tmp_path / "conf")
    with pytest.raises(UserError, match=r"not valid YAML: .*user.yaml") as caught:
        compose.compose([])
    assert "\n" not in str(caught.value)
