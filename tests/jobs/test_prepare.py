"""Going on with a run: what may change, and what would make another run of it."""

from pathlib import Path

import pytest

from jobs import prepare
from jobs.compose import compose
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path, sample: Path) -> RunFolder:
    """The folder of a run that was prepared and not started."""
    words = ["exp=exp5", f"data.path={sample}", f"run.dir={tmp_path}/run"]
    return prepare.create(compose(words), words)


def test_another_decoder_is_refused_in_one_line(folder: RunFolder) -> None:
    with pytest.raises(UserError, match=r"data.decoder was dali in .*/run and is torchvision now; a run goes on as it"):
        prepare.resume(str(folder.path), ["data.decoder=torchvision"])


@pytest.mark.parametrize("word", ["data.decoder_threads=2", "data.on_bad_sample=replace", "data.prefetch_updates=5"])
def test_what_changes_no_pixel_of_a_good_sample_may_change(folder: RunFolder, word: str) -> None:
    _, config = prepare.resume(str(folder.path), [word])
    assert config == compose(["exp=exp5", f"data.path={config.data.path}", f"run.dir={config.run.dir}", word])
