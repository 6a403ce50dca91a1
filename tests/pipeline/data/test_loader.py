"""The loader: pixels are a function of (seed, epoch, sample), batches follow the stages, the run has one end."""

from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms.v2.functional import resized_crop

from jobs.compose import compose
from pipeline.config import Config, make_plan
from pipeline.data import decode, loader, order
from pipeline.data.decode import Decoder
from pipeline.data.loader import Batch, TrainingLoader, validation_batches
from pipeline.data.memory import SampleMemory
from pipeline.data.shards import read_index
from pipeline.data.staging import stage
from pipeline.evaluate import OneProcess

DECODERS = ("dali", "torchvision")


@pytest.fixture(scope="module")
def digits(sample: Path) -> SampleMemory:
    (memory,) = stage([read_index(sample, "train")], OneProcess())
    return memory


def batches(
    memory: SampleMemory, config: Config, worker: int, first_update: int, count: int, decoder: Decoder | None = None
) -> list[list[Batch]]:
    """At most `count` updates of a worker."""
    training = TrainingLoader(
        memory,
        config.data,
        make_plan(config),
        seed=config.seed,
        worker=worker,
        first_update=first_update,
        decoder=decoder,
    )
    try:
        return list(islice(training, count))
    finally:
        training.close()


def pixels(memory: SampleMemory, workers: int, first_update: int, *words: str) -> torch.Tensor:
    """Three updates' images, in the order of the virtual workers: (3 * total batch, 3, h, w)."""
    config = compose(["exp=exp5", f"workers={workers}", *words])
    by_worker = [batches(memory, config, worker, first_update, 3) for worker in range(workers)]
    return torch.cat([one.images for update in zip(*by_worker, strict=True) for part in update for one in part])


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("first_update", [35, 1109, 1679], ids=["end of an epoch", "switch to 32", "switch to 56"])
def test_pixels_are_equal_for_1_2_and_4_workers(digits: SampleMemory, first_update: int, decoder: str) -> None:
    one, two, four = (pixels(digits, workers, first_update, f"data.decoder={decoder}") for workers in (1, 2, 4))
    assert torch.equal(one, two)
    assert torch.equal(one, four)


def test_pixels_are_equal_however_many_updates_are_decoded_at_once(
    digits: SampleMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = pixels(digits, 4, 1109)
    monkeypatch.setattr(loader, "PIXELS_AT_ONCE", 1)
    assert torch.equal(pixels(digits, 4, 1109), together)


def test_pixels_are_equal_for_1_and_3_threads(digits: SampleMemory) -> None:
    assert torch.equal(pixels(digits, 4, 35), pixels(digits, 4, 35, "data.decoder_threads=3"))


def test_batches_follow_the_stages_on_one_pipeline(digits: SampleMemory) -> None:
    config = compose(["exp=exp5"])
    decoder = decode.build(config.data)
    for first, expected in ((1109, [16, 32]), (1679, [32, 56])):
        updates = batches(digits, config, 0, first, 2, decoder)
        assert [len(update[0].labels) for update in updates] == expected


def test_every_epoch_has_the_length_of_the_plan(digits: SampleMemory) -> None:
    config = compose(["exp=exp5", "data.image_size=4"])
    plan = make_plan(config)
    starts = [plan.first_update(epoch) for epoch in range(4)]
    lengths = [last - first for first, last in pairwise(starts)]
    assert lengths == [37, 37, 37]  # ceil(2355 samples / 64)
    three_epochs = batches(digits, config, 3, 0, starts[-1])
    for first, last in pairwise(starts):
        labels = torch.cat([part.labels for update in three_epochs[first:last] for part in update])
        epoch = plan.position(first)[0]
        permutation = order.permutation(0, epoch, plan.samples)
        expected = [order.update_samples(permutation, update, plan.stages[0])[48:] for update in range(37)]
        assert labels.tolist() == digits.index.label[np.concatenate(expected)].tolist()


def test_it_ends_with_the_run(digits: SampleMemory) -> None:
    config = compose(["exp=exp5"])
    assert len(batches(digits, config, 0, 2008, 10)) == 2


def test_it_can_be_closed_before_its_end(digits: SampleMemory) -> None:
    config = compose(["exp=exp5"])
    training = TrainingLoader(digits, config.data, make_plan(config), seed=0, worker=0, first_update=0)
    training.close()
    assert not training._thread.is_alive()


@pytest.mark.parametrize(("decoder", "mean_difference"), [("torchvision", 0.0), ("dali", 0.5)])
def test_a_training_image_is_torchvisions_resized_crop_of_its_window(
    digits: SampleMemory, decoder: str, mean_difference: float
) -> None:
    config = compose(["exp=exp5", f"data.decoder={decoder}"])
    plan = make_plan(config)
    (batch,) = batches(digits, config, 0, 0, 1)[0]
    samples = order.worker_samples(
        order.update_samples(order.permutation(0, 0, plan.samples), 0, plan.stages[0]), 0, plan.stages[0]
    )[0]
    sizes = np.full(16, 28)
    windows = order.windows(0, 0, samples, sizes, sizes, config.data.window)
    size = [config.data.image_size] * 2
    for place, (sample, window) in enumerate(zip(samples.tolist(), windows.tolist(), strict=True)):
        whole = decode_image(torch.from_numpy(digits.image(sample)), mode=ImageReadMode.RGB)
        expected = resized_crop(whole, *window, size=size).float()
        found = batch.images[place] * config.data.std[0] + config.data.mean[0]
        assert (found - expected).abs().mean() <= mean_difference + 1e-4
    assert batch.labels.tolist() == digits.index.label[samples].tolist()
    assert batch.images.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("decoder", DECODERS)
def test_mirrored_images_are_flipped(digits: SampleMemory, decoder: str) -> None:
    words = ["exp=exp5", f"data.decoder={decoder}", "data.window.area=[1,1]", "data.window.ratio=[1,1]"]
    plain, mirrored = (
        batches(digits, compose([*words, f"data.mirror={on}"]), 0, 0, 1)[0][0] for on in ("false", "true")
    )
    same = [bool(torch.equal(a, b)) for a, b in zip(plain.images, mirrored.images, strict=True)]
    flipped = [bool(torch.equal(a, b.flip(-1))) for a, b in zip(plain.images, mirrored.images, strict=True)]
    assert [one or other for one, other in zip(same, flipped, strict=True)] == [True] * 16
    assert 2 < sum(flipped) < 14


@pytest.mark.parametrize("workers", [1, 3, 4, 7])
def test_validation_sees_every_image_exactly_once(sample: Path, workers: int) -> None:
    (memory,) = stage([read_index(sample, "validation").first(103)], OneProcess())
    config = compose(["exp=exp5"])
    parts = [
        list(validation_batches(memory, config.data, worker=worker, workers=workers, batch=10))
        for worker in range(workers)
    ]
    labels = sorted(label for part in parts for batch in part for label in batch.labels.tolist())
    assert labels == sorted(memory.index.label.tolist())
