"""What only the job's machines can tell: data that do not fit the run are refused with what would be right."""

from pathlib import Path

import pytest

from jobs.compose import compose
from pipeline import preflight
from pipeline.config import make_plan
from pipeline.errors import UserError
from tests.pipeline.data.images import jpeg, write_images


def read(folder: Path, *words: str) -> None:
    config = compose(["exp=exp5", f"data.path={folder}", *words])
    preflight.read_data(config, make_plan(config))


def test_more_samples_than_there_are_is_told_how_many(sample: Path) -> None:
    with pytest.raises(UserError, match=r"needs 4,001 training samples and .* has 4,000; data.train_samples=4000"):
        read(sample, "data.train_samples=4001")


def test_another_number_of_classes_is_named(sample: Path) -> None:
    with pytest.raises(UserError, match=r"model.classes=12, but .* has 10 classes"):
        read(sample, "model.classes=12")


def test_an_empty_split_is_named(tmp_path: Path) -> None:
    write_images(tmp_path, train=[jpeg(0)], validation=[])
    with pytest.raises(UserError, match=r"has no images to validate with; .*prepare\.validation_share=0\.1"):
        read(tmp_path, "data.train_samples=1")


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_label_beyond_the_classes_is_named(tmp_path: Path, split: str) -> None:
    write_images(tmp_path, train=[jpeg(0)], validation=[jpeg(1)])
    path = tmp_path / f"{split}-000000.tsv"
    path.write_text(path.read_text().replace("\t0\t28\t28", "\t10\t28\t28"))
    with pytest.raises(UserError, match=rf"sample {split}-0000 in .* has label 10 .* labels go from 0 to 9"):
        read(tmp_path, "data.train_samples=1")


@pytest.mark.parametrize("line", ["train-0000\t512\n", "train-0000\t512\tx\t0\t28\t28\n"], ids=["short", "no number"])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    write_images(tmp_path, train=[jpeg(0)], validation=[jpeg(1)])
    path = tmp_path / "train-000000.tsv"
    path.write_text(path.read_text().splitlines()[0] + "\n" + line)
    with pytest.raises(UserError, match=r"train-000000.tsv, sample 1: not a line of this shard's index"):
        read(tmp_path, "data.train_samples=1")


def test_an_index_cut_short_is_named(tmp_path: Path) -> None:
    write_images(tmp_path, train=[jpeg(0), jpeg(1)], validation=[jpeg(1)])
    path = tmp_path / "train-000000.tsv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(UserError, match=r"train-000000.tsv has 1 samples, manifest.json says 2"):
        read(tmp_path, "data.train_samples=1")
