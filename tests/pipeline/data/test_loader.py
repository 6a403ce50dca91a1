"""The loader: pixels are a function of (seed, epoch, sample), batches follow the stages, faults are named."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms.v2.functional import resized_crop

from jobs.compose import compose
from pipeline.config import Config, make_plan
from pipeline.data import order
from pipeline.data.loader import Batch, TrainingLoader, validation_batches
from pipeline.data.memory import SampleMemory, stage
from pipeline.data.shards import read_index
from pipeline.errors import UserError
from pipeline.evaluate import OneProcess
from tests.pipeline.data.images import jpeg, write_images


@pytest.fixture(scope="module")
def digits(sample: Path) -> SampleMemory:
    (memory,) = stage([read_index(sample, "train")], OneProcess())
    return memory


def batches(memory: SampleMemory, config: Config, worker: int, first_update: int, count: int) -> list[list[Batch]]:
    plan = make_plan(config)
    loader = TrainingLoader(memory, config.data, plan, seed=config.seed, worker=worker, first_update=first_update)
    try:
        return [micro_batches for micro_batches, _ in zip(loader, range(count), strict=False)]
    finally:
        loader.close()


def pixels(memory: SampleMemory, workers: int, first_update: int) -> torch.Tensor:
    """Three updates' images, in the order of the virtual workers: (3 * total batch, 3, h, w)."""
    config = compose(["exp=exp5", f"workers={workers}"])
    by_worker = [batches(memory, config, worker, first_update, 3) for worker in range(workers)]
    return torch.cat([one.images for update in zip(*by_worker, strict=True) for part in update for one in part])


@pytest.mark.parametrize("first_update", [35, 1109, 1679], ids=["end of an epoch", "switch to 32", "switch to 56"])
def test_pixels_are_equal_for_1_2_and_4_workers(digits: SampleMemory, first_update: int) -> None:
    one, two, four = (pixels(digits, workers, first_update) for workers in (1, 2, 4))
    assert torch.equal(one, two)
    assert torch.equal(one, four)


def test_batches_follow_the_stages(digits: SampleMemory) -> None:
    config = compose(["exp=exp5"])
    for first, expected in ((1109, [16, 32]), (1679, [32, 56])):
        assert [len(update[0].labels) for update in batches(digits, config, 0, first, 2)] == expected


def test_it_ends_with_the_run(digits: SampleMemory) -> None:
    config = compose(["exp=exp5"])
    assert len(batches(digits, config, 0, 2008, 10)) == 2


def test_it_can_be_closed_before_its_end(digits: SampleMemory) -> None:
    config = compose(["exp=exp5"])
    loader = TrainingLoader(digits, config.data, make_plan(config), seed=0, worker=0, first_update=0)
    loader.close()
    assert not loader._thread.is_alive()


def test_a_training_image_is_torchvisions_resized_crop_of_its_window(digits: SampleMemory) -> None:
    config = compose(["exp=exp5"])
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
        expected = (resized_crop(whole, *window, size=size).float() - config.data.mean[0]) / config.data.std[0]
        torch.testing.assert_close(batch.images[place], expected)
    assert batch.labels.tolist() == digits.index.label[samples].tolist()
    assert batch.images.is_contiguous(memory_format=torch.channels_last)


def test_mirrored_images_are_flipped(digits: SampleMemory) -> None:
    words = ["exp=exp5", "data.window.area=[1,1]", "data.window.ratio=[1,1]"]
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


BAD = {
    "truncated": jpeg(3)[:200],
    "empty": b"",
    "not an image": b"The quick brown fox jumps over the lazy dog.",
    "smaller than its index says": jpeg(3, side=14),
}


@pytest.mark.parametrize("image", BAD.values(), ids=BAD.keys())
def test_a_bad_image_is_named_with_its_key_and_shard(tmp_path: Path, image: bytes) -> None:
    write_images(tmp_path, train=[*[jpeg(i) for i in range(20)], image], validation=[])
    (memory,) = stage([read_index(tmp_path, "train")], OneProcess())
    config = compose(["exp=exp5", "data.train_samples=21"])
    with pytest.raises(UserError, match=r"sample train-0020 in .*train-000001.tar cannot be decoded"):
        batches(memory, config, 0, 0, 10)
