"""The loaders that are compared do the same work: the same images, windows, size and type."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bench import loader, loader_images
from bench.loader_images import Images
from bench.loader_peers import Pillow, TorchvisionIO, views
from pipeline.config import make_plan
from pipeline.data.loader import TrainingLoader


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("photos")


@pytest.fixture(scope="module")
def photos(folder: Path) -> Images:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader_images, "PHOTOS", 32)
        return loader_images.photos(folder)


def test_photographs_are_as_large_as_imagenets(photos: Images) -> None:
    # ILSVRC2012_img_train.tar has 147,897,477,120 bytes for 1,281,167 images: 115 kB each, at about 500 x 375 pixels.
    assert 80e3 < photos.memory.index.size.mean() < 130e3
    assert set(photos.memory.index.width.tolist()) == {500}
    assert set(photos.memory.index.height.tolist()) == {375}


@pytest.mark.parametrize("peer", [Pillow, TorchvisionIO])
def test_a_peer_makes_our_batches(photos: Images, peer: type[Pillow] | type[TorchvisionIO]) -> None:
    config = photos.config("dali")
    dataset = peer(photos.memory, config)
    images, labels = dataset.normalise.collate([dataset[view] for view in views(photos.memory, config)[1]])
    training = TrainingLoader(photos.memory, config.data, make_plan(config), seed=0, worker=0, first_update=1)
    try:
        ((ours,), *_) = [next(iter(training))]
    finally:
        training.close()
    assert torch.equal(ours.labels, labels)
    assert (ours.images.dtype, ours.images.shape) == (images.dtype, images.shape)
    assert ours.images.is_contiguous(memory_format=torch.channels_last)
    assert images.is_contiguous(memory_format=torch.channels_last)
    std = np.mean(config.data.std)
    assert (ours.images - images).abs().mean().item() * std <= 0.5


def test_every_loader_yields_batches_of_16(photos: Images, folder: Path) -> None:
    for name, start in (loader.data_loaders(photos) | loader.libraries(photos, folder)).items():
        batches = start()
        assert [next(batches), next(batches)] == [16, 16], name
        batches.close()


def test_a_line_says_what_was_to_be_reached(capsys: pytest.CaptureFixture[str]) -> None:
    speeds = {
        loader.OURS: 600.0, "DataLoader, Pillow": 300.0, "DataLoader, torchvision.io": 400.0,
        "DALI, readers.file": 500.0, loader.DALI_ALONE: 480.0, loader.TORCH_RESIZES: 750.0,
    }  # fmt: skip
    loader.print_targets([loader.Row("photos", name, speed, speed, 1.0, 1.0) for name, speed in speeds.items()])
    assert capsys.readouterr().out.splitlines() == [
        "ours / DataLoader, torchvision.io: 1.50 (at least 1.15)",
        "ours / DALI, readers.file: 1.20 (at least 0.95)",
        "ours / limit: DALI alone: 1.25 (at least 0.85)",
        "ours / limit: DALI, torch resizes: 0.80 (at least 0.85)",
    ]
