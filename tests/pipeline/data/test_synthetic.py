"""Synthetic batches: the shapes of real ones, the same for the same seed, no file."""

import pytest
import torch

from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.data.synthetic import SyntheticLoader

CPU = torch.device("cpu")


def loader(*words: str, worker: int = 0, first_update: int = 0) -> SyntheticLoader:
    config = compose(["exp=exp5", "data.synthetic=true", "data.path=/no/such/folder", *words])
    return SyntheticLoader(config, make_plan(config), worker=worker, first_update=first_update, device=CPU)


def test_it_yields_every_update_of_the_run_in_each_stages_batch() -> None:
    sizes = [[len(batch.labels) for batch in update] for update in loader("workers=2")]
    assert sizes == [[16, 16]] * 1110 + [[32, 32]] * 570 + [[56, 56]] * 330


def test_it_goes_on_at_any_update() -> None:
    assert len(list(loader(first_update=2000))) == 10


def test_a_batch_is_what_the_network_takes() -> None:
    ((batch,), *_) = loader()
    assert batch.images.shape == (16, 3, 16, 16)
    assert batch.images.is_contiguous(memory_format=torch.channels_last)
    assert (batch.images.dtype, batch.labels.dtype) == (torch.float32, torch.int64)
    assert 0 <= int(batch.labels.min()) <= int(batch.labels.max()) < 10


def test_it_is_made_once_from_the_seed_and_the_worker() -> None:
    first, second, *_ = loader()
    assert first[0].images is second[0].images
    same = next(iter(loader()))[0].images
    assert torch.equal(same, first[0].images)
    for other in (loader("seed=1"), loader(worker=1)):
        assert not torch.equal(next(iter(other))[0].images, same)


@pytest.mark.parametrize("words", [["data=synthetic", "scale=null"]])
def test_it_is_a_choice_of_conf_that_needs_no_path(words: list[str]) -> None:
    config = compose(words)
    assert (config.data.synthetic, config.data.image_size, config.data.path) == (True, 224, "")
