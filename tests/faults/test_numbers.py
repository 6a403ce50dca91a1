"""A gradient that is no number on one worker, and one too large for FP16: all workers skip alike, and go on alike."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pipeline import checkpoint
from pipeline.run_folder import RunFolder
from tests.faults.table import Row, note
from tests.faults.trained import train_struck
from tests.pipeline.test_trainer import MODEL, SHORT

UPDATES = 6
STRUCK = 3
"""The update whose gradient is no number on rank 2."""


def no_number(rank: int, update: int, gradient: Tensor) -> Tensor:
    return gradient * math.nan if (rank, update) == (2, STRUCK) else gradient


def as_it_is(rank: int, update: int, gradient: Tensor) -> Tensor:  # noqa: ARG001
    return gradient


def test_a_gradient_that_is_no_number_on_one_worker_is_skipped_by_all_alike(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={sample}"]
    found, lines = train_struck(tmp_path / "run", words, UPDATES, no_number)
    assert [line["skipped"] for line in lines] == [number == STRUCK for number in range(1, UPDATES + 1)]
    scales = [line["loss_scale"] for line in lines]
    assert scales == [1024.0] * STRUCK + [512.0] * (UPDATES - STRUCK)  # conf/config.yaml, and halved once
    for rank in found:
        assert (rank.weights, rank.scale) == (found[0].weights, 512.0)
    weights = found[0].weights
    assert weights[STRUCK - 1] == weights[STRUCK - 2]
    assert all(weights[number] != weights[number - 1] for number in range(2, UPDATES) if number != STRUCK - 1)
    assert all(math.isfinite(line["loss"]) for line in lines)
    seen = "skipped in metrics.jsonl, on all ranks alike"
    note(Row("a gradient that is no number on one rank", seen, None, 1, "the run goes on"))


@pytest.mark.long
def test_gradients_too_large_for_fp16_at_first_are_skipped_until_the_scale_fits(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={sample}", f"precision.loss_scale={2.0**22}"]
    found, lines = train_struck(tmp_path / "run", words, UPDATES, as_it_is)
    skipped = [line["skipped"] for line in lines]
    count = skipped.index(False)
    assert 0 < count < UPDATES
    assert skipped == [True] * count + [False] * (UPDATES - count)
    assert [line["loss_scale"] for line in lines] == [2.0 ** (22 - min(number, count)) for number in range(UPDATES)]
    for rank in found:
        assert (rank.weights, rank.scale) == (found[0].weights, found[0].scale)
    assert found[0].weights[0] == found[0].weights[count - 1] != found[0].weights[count]
    state = checkpoint.read(RunFolder(tmp_path / "run").checkpoint(UPDATES))
    assert state.scaler["scale"] == found[0].scale
    assert all(torch.isfinite(value).all() for value in state.model.values())
    seen = "skipped in metrics.jsonl, on all ranks alike"
    note(Row("FP16 overflow at the first updates", seen, None, count, "the run goes on"))
