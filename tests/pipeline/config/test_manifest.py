"""A user's own images: classes and training images are what manifest.json counts, at any scale."""

import json
from pathlib import Path

import pytest

from jobs import prepare, render
from jobs.compose import compose
from pipeline.config import Config, load, make_plan
from pipeline.config.manifest import Counts, read_counts
from pipeline.errors import UserError
from tests.pipeline.data.images import jpeg, write_images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Shards of 300 training images of 7 classes."""
    images = [jpeg(number) for number in range(5)]
    write_images(tmp_path / "shards", train=images * 60, validation=images, classes=7)
    return tmp_path / "shards"


def composed(folder: Path, *words: str) -> Config:
    return compose(["exp=exp5", "data=folder", f"data.path={folder}", *words])


def test_classes_and_training_images_are_the_manifests(folder: Path) -> None:
    config = composed(folder)
    assert (config.model.classes, config.data.classes, config.data.train_samples) == (7, 7, 300)
    assert read_counts(folder) == Counts(classes=7, train_samples=300)


def test_an_epoch_is_all_images_at_any_scale(folder: Path) -> None:
    here = make_plan(composed(folder))
    assert (here.samples, here.workers, here.stages[0].updates_per_epoch) == (300, 4, 5)  # 300 / (4 * 16)
    at_cluster = make_plan(composed(folder, "site=slurm", "nodes=16"))
    assert (at_cluster.samples, at_cluster.workers) == (300, 128)


def test_what_the_user_says_is_stronger(folder: Path) -> None:
    config = composed(folder, "data.train_samples=100", "data.mean=[1,2,3]", "data.image_size=64")
    assert (config.data.train_samples, config.data.mean, config.data.image_size) == (100, [1, 2, 3], 64)
    assert composed(folder, "data.classes=9").model.classes == 9  # and the job refuses it: test_preflight


def test_where_the_user_counts_nothing_is_read() -> None:
    config = composed(Path("/on/the/cluster"), "data.classes=9", "data.train_samples=100")
    assert (config.model.classes, make_plan(config).samples) == (9, 100)


def test_the_augmentation_is_imagenets(folder: Path) -> None:
    own, imagenet = composed(folder).data, compose(["data=imagenet", f"data.path={folder}"]).data
    assert own.window == imagenet.window
    assert (own.mean, own.std, own.image_size) == (imagenet.mean, imagenet.std, imagenet.image_size)
    assert (own.mirror, own.validation_crop, own.decoder) == (True, imagenet.validation_crop, imagenet.decoder)


def test_imagenets_augmentation_is_the_papers_kind() -> None:
    # torchvision's RandomResizedCrop and its references' mean and std, times 255; 224 of 256.
    data = compose(["data=imagenet", "data.path=/imagenet"]).data
    assert data.window.area == [0.08, 1.0]
    assert data.window.ratio == pytest.approx([3 / 4, 4 / 3])
    assert data.mean == pytest.approx([255 * mean for mean in (0.485, 0.456, 0.406)])
    assert data.std == pytest.approx([255 * std for std in (0.229, 0.224, 0.225)])
    assert data.validation_crop == 224 / 256
    assert data.classes == 1000


def test_the_run_folder_holds_the_numbers(folder: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", "data=folder", f"data.path={folder}", f"run.dir={tmp_path}/run"]
    run = prepare.create(compose(words), words)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"classes": 8}))
    stored = load(run.config)
    assert (stored.model.classes, stored.data.train_samples, make_plan(stored).samples) == (7, 300, 300)
    with pytest.raises(UserError, match=r"(data|model).classes was 7 in .* and is 8 now; a run goes on as it began"):
        prepare.resume(str(run.path), [])


def test_without_a_path_it_is_asked_for_and_shown_by_a_stand_in(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"^data.path has no value; give it by DATA="):
        compose(["exp=exp5", "data=folder"])
    assert render.main(["exp=exp5", "data=folder"]) == 0
    assert "data.path has no value and is shown as" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{}", "[]", "no JSON", '{"classes": "x", "splits": {"train": {"samples": 1}}}'])
def test_a_manifest_that_counts_nothing_is_one_line(tmp_path: Path, content: str) -> None:
    with pytest.raises(UserError, match="no such folder"):
        composed(tmp_path / "absent")
    with pytest.raises(UserError, match=r"no manifest.json in it"):
        composed(tmp_path)
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(UserError, match=r"tells no classes or training samples; prepare the shards again") as caught:
        composed(tmp_path)
    assert "\n" not in str(caught.value)
