"""What is saved is what is loaded, and a file that does not fit is refused in one line."""

from pathlib import Path

import pytest

from jobs.compose import compose
from pipeline.config import load, save
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


def test_a_tag_that_would_run_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"experiment: !!python/object/apply:os.mkdir ['{tmp_path}/canary']\n")
    with pytest.raises(UserError, match=r"config\.yaml is damaged: could not determine a constructor for the tag"):
        load(path)
    assert not (tmp_path / "canary").exists()
