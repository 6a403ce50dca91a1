"""A sample that cannot be decoded is named, and by choice replaced: it never costs its batch, nor goes unnoticed."""

from pathlib import Path

import numpy as np
import pytest
import torch

from jobs.compose import compose
from pipeline.config import Config, make_plan
from pipeline.data.loader import Batch, TrainingLoader, validation_batches
from pipeline.data.memory import SampleMemory
from pipeline.data.shards import read_index
from pipeline.data.staging import stage
from pipeline.errors import UserError
from pipeline.evaluate import OneProcess
from pipeline.validation import count_correct
from tests.pipeline.data.images import jpeg, write_images

BAD = {
    "truncated in its header": jpeg(3)[:200],
    "truncated in its last row": jpeg(3)[:-40],
    "empty": b"",
    "random bytes": np.random.default_rng(0).bytes(500),
    "text": b"The quick brown fox jumps over the lazy dog.",
    "smaller than its index says": jpeg(3, side=14),
}
WORDS = ["exp=exp5", "data.train_samples=21", "data.window.area=[1,1]", "data.window.ratio=[1,1]"]
"""Whole images: a window above the damage can be decoded, and then is right."""


def memory(folder: Path, bad: dict[int, bytes], split: str = "train") -> SampleMemory:
    """21 images of which some are bad."""
    images = [bad.get(sample, jpeg(sample)) for sample in range(21)]
    write_images(folder, train=images, validation=images)
    return stage([read_index(folder, split)], OneProcess())[0]


def epoch(memory: SampleMemory, config: Config, first_update: int = 0) -> Batch:
    """The first epoch from an update on: one update of 64 images, in micro-batches of 16 on one worker."""
    training = TrainingLoader(memory, config.data, make_plan(config), seed=0, worker=0, first_update=first_update)
    try:
        parts = next(iter(training))
    finally:
        training.close()
    images, labels = (torch.cat([getattr(part, name) for part in parts]) for name in ("images", "labels"))
    return Batch(images, labels, sum(part.replaced for part in parts))


@pytest.mark.parametrize("decoder", ["dali", "torchvision"])
@pytest.mark.parametrize("image", BAD.values(), ids=BAD.keys())
def test_it_is_named_with_its_key_and_shard(tmp_path: Path, image: bytes, decoder: str) -> None:
    bad = memory(tmp_path, {20: image})
    with pytest.raises(UserError, match=r"sample train-0020 in .*train-000001.tar cannot be decoded: .") as caught:
        epoch(bad, compose([*WORDS, "workers=1", f"data.decoder={decoder}"]))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("decoder", ["dali", "torchvision"])
def test_a_good_one_stands_in_and_the_others_stay(
    tmp_path: Path, decoder: str, capfd: pytest.CaptureFixture[str]
) -> None:
    config = compose([*WORDS, "workers=1", "data.on_bad_sample=replace", f"data.decoder={decoder}"])
    good = epoch(memory(tmp_path / "good", {}), config)
    found = epoch(memory(tmp_path / "bad", {4: BAD["empty"], 5: BAD["random bytes"], 20: BAD["text"]}), config)
    stands_in = {4: 6, 5: 6, 20: 0}
    samples = good.labels.tolist()  # 21 samples of 10 classes: labels alone do not tell them apart, so by pixels
    by_pixels = {image.numpy().tobytes(): label for image, label in zip(good.images, samples, strict=True)}
    assert len(by_pixels) == 21
    names = order_of_first_epoch(config)
    expected = [names.index(stands_in.get(sample, sample)) for sample in names]
    assert torch.equal(found.images, good.images[expected])
    assert torch.equal(found.labels, good.labels[expected])
    assert found.replaced == sum(sample in stands_in for sample in names) > 3
    log = capfd.readouterr().err
    for key in ("train-0004", "train-0005", "train-0020"):
        assert log.count(f"sample {key} in") == 1


def order_of_first_epoch(config: Config) -> list[int]:
    """The samples of the first update of 64: the permutation, three times and a bit."""
    from pipeline.data.order import permutation

    order = permutation(0, 0, make_plan(config).samples).tolist()
    return (order * 4)[:64]


def test_a_resumed_run_sees_the_same_stand_ins(tmp_path: Path) -> None:
    words = [*WORDS, "workers=1", "data.on_bad_sample=replace", "data.window.area=[0.3,1]", "data.mirror=true"]
    config = compose(words)
    bad = memory(tmp_path, {4: BAD["truncated in its last row"], 5: BAD["empty"]})
    training = TrainingLoader(bad, config.data, make_plan(config), seed=0, worker=0, first_update=0)
    batches = iter(training)
    next(batches), next(batches)
    through = torch.cat([part.images for part in next(batches)])
    training.close()
    assert torch.equal(epoch(bad, config, first_update=2).images, through)


def test_no_good_sample_at_all_ends_the_run(tmp_path: Path) -> None:
    config = compose([*WORDS, "workers=1", "data.on_bad_sample=replace"])
    with pytest.raises(UserError, match=r"none of the first 21 training samples in .* can be decoded"):
        epoch(memory(tmp_path, dict.fromkeys(range(21), b"no image")), config)


@pytest.mark.parametrize("decoder", ["dali", "torchvision"])
def test_a_bad_validation_image_counts_as_wrong(tmp_path: Path, decoder: str) -> None:
    bad = memory(tmp_path, {3: BAD["empty"], 13: BAD["text"]}, "validation")
    config = compose(["exp=exp5", "data.on_bad_sample=replace", f"data.decoder={decoder}"])

    class Right(torch.nn.Module):
        """Knows every label, and of sample 3 and 13 too: both are of class 3."""

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            first = self.seen
            self.seen += len(images)
            return torch.eye(10)[torch.arange(first, self.seen) % 10]

        seen = 0

    batches = validation_batches(bad, config.data, worker=0, workers=1, batch=8)
    assert count_correct(Right(), batches, torch.device("cpu")).tolist() == [19, 21]


@pytest.mark.parametrize("decoder", ["dali", "torchvision"])
@pytest.mark.parametrize("size", [16, 96], ids=["the decoder resizes", "torch resizes"])
def test_validation_works_on_several_decoder_threads(tmp_path: Path, decoder: str, size: int) -> None:
    words = ["exp=exp5", "data.decoder_threads=3", f"data.decoder={decoder}", f"data.image_size={size}"]
    good, config = memory(tmp_path, {}, "validation"), compose(words)
    batches = validation_batches(good, config.data, worker=0, workers=1, batch=8)
    flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * size * size, 10))
    assert int(count_correct(flat, batches, torch.device("cpu"))[1]) == 21


def test_a_bad_validation_image_is_refused_by_name_unless_asked_otherwise(tmp_path: Path) -> None:
    bad = memory(tmp_path, {3: BAD["empty"]}, "validation")
    with pytest.raises(UserError, match=r"sample validation-0003 in .*validation-000000.tar cannot be decoded"):
        list(validation_batches(bad, compose(["exp=exp5"]).data, worker=0, workers=1, batch=8))
