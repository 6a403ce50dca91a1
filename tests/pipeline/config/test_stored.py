"""What is saved is what is loaded, and a file that does not fit is refused in one line."""

from pathlib import Path

import pytest

from jobs.compose import compose
from pipeline.config import load, save
from pipeline.config.stored import read_yaml
from pipeline.errors import UserError


def test_a_configuration_survives_the_disk(tmp_path: Path) -> None:
    config = compose(["exp=exp6", "optim.lr=2.5", "workers=2"])
    save(config, tmp_path / "config.yaml")
    assert load(tmp_path / "config.yaml") == config


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        load(tmp_path / "config.yaml")


def test_a_key_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("sede: 3\n")
    with pytest.raises(UserError, match="sede"):
        load(path)


def test_a_part_that_stands_for_nine_others_of_nine_is_refused_and_a_star_in_a_text_is_none(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    lines = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 9)]
    path.write_text("\n".join(["a0: &a0 [x]", *lines]) + "\n")  # 9 ** 8 are 43 million
    with pytest.raises(UserError, match=r"config\.yaml is damaged: a part of it stands for another"):
        load(path)
    path.write_text("- 'site.require=[A*]'\n")
    assert read_yaml(path) == ["site.require=[A*]"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("workers: 2176", "workers: 1" + "0" * 30, "recipe.workers=10{30}: must be at most 1000000"),
        (
            "momentum_reference_batch: 34816",
            "momentum_reference_batch: 1" + "0" * 400,
            "momentum_reference_batch=10{400}: must be at most",
        ),
        ("per_worker_batch: 56", "per_worker_batch: 0", "per_worker_batch=0: must be at least 1"),
        ("vertical: 34", "vertical: 33", "recipe.grid is 33x64 = 2112 workers; recipe.workers is 2176"),
    ],
)
def test_a_size_that_no_plan_can_be_made_of_is_told_with_its_file(
    tmp_path: Path, old: str, new: str, line: str
) -> None:
    path = tmp_path / "config.yaml"
    save(compose(["exp=exp5"]), path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=rf"config\.yaml: .*{line}"):
        load(path)


def test_a_tag_that_would_run_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"experiment: !!python/object/apply:os.mkdir ['{tmp_path}/canary']\n")
    with pytest.raises(UserError, match=r"config\.yaml is damaged: could not determine a constructor for the tag"):
        load(path)
    assert not (tmp_path / "canary").exists()
