"""Scale models of the recipes train: two epochs of each in this process, on one worker; and one is stopped."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from jobs.compose import compose
from pipeline import checkpoint, preflight
from pipeline.config import make_plan
from pipeline.data.staging import stage
from pipeline.evaluate import OneProcess
from pipeline.metrics import LoopTime, UpdateLine, ValidationLine
from pipeline.run_folder import RunFolder
from pipeline.trainer import Trainer
from pipeline.workers import Workers
from tests.worlds import world_of_one


@pytest.fixture(scope="module")
def me() -> Iterator[Workers]:
    """One worker for all runs."""
    with world_of_one(compose([]).site) as found:
        yield found


class Kept:
    """An observer that keeps the lines of updates and validations."""

    def __init__(self) -> None:
        self.lines: list[UpdateLine] = []
        self.top1: list[float] = []

    def updates(self, lines: list[UpdateLine], time: LoopTime) -> None:  # noqa: ARG002
        self.lines += lines

    def validated(self, line: ValidationLine) -> None:
        self.top1.append(line.top1)

    def saved(self, update: int) -> None: ...

    def slow(self, update: int, line: str) -> None: ...


def train(me: Workers, folder: Path, words: list[str]) -> Kept:
    """A run, from its newest checkpoint where there is one."""
    config = compose([*words, "workers=1"])
    plan = make_plan(config)
    train_memory, validation_memory = stage(preflight.read_data(config, plan), OneProcess())
    kept = Kept()
    run = RunFolder(folder) if folder.exists() else RunFolder.create(folder)
    Trainer(config, plan, me, run, (train_memory, validation_memory), kept, lambda: False).run()
    train_memory.close()
    return kept


@dataclass(frozen=True)
class Expected:
    """Updates an epoch, images an update, LR of the first update of both epochs: by hand from the papers' figures."""

    updates: int
    batch: int
    lr: tuple[float, float]
    momentum: float = 0.9


LARS = (0.0, 3.1 / 5)
RECIPES = {
    "he": Expected(74, 32, (0.1 * 32 / 256, 0.1 * 32 / 256)),
    "goyal": Expected(148, 16, (0.1 * 16 / 8192, (0.1 + 3.1 / 5) * 16 / 8192)),
    "smith": Expected(148, 16, (0.1 * 16 / 8192, (0.1 + 3.1 / 5) * 16 / 8192)),
    "akiba": Expected(40, 64, (0.5 * 0.1 * 64 / 256, 0.5 * 0.1 * 64 / 256)),
    "jia": Expected(20, 128, LARS),
    "kumar": Expected(79, 30, (0.1 * 30 / 16384, (0.1 + 6.3 / 5) * 30 / 16384)),
    "reference": Expected(37, 64, LARS),
    "exp1": Expected(50, 48, LARS, 1 - 0.1 * 34816 / 26112),
    "exp2": Expected(37, 64, LARS),
    "exp3": Expected(30, 80, LARS, 0.92),
    "exp4": Expected(25, 96, LARS, 1 - 0.1 * 34816 / 52224),
    "exp5": Expected(37, 64, LARS),
    "exp6": Expected(37, 64, LARS),
    "flash": Expected(24, 96, LARS, 1 - 0.1 * 34816 / 55296),
}

QUICK = ("he", "goyal", "smith", "akiba", "jia", "kumar")
"""The others differ from jia in batch and momentum alone here: `make test-long` runs them."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in RECIPES]
)
def test_its_scale_model_trains(name: str, me: Workers, sample: Path, tmp_path: Path) -> None:
    expected = RECIPES[name]
    kept = train(me, tmp_path / "run", [f"exp={name}", f"data.path={sample}", "run.stop_after_epochs=2"])
    first, second = kept.lines[: expected.updates], kept.lines[expected.updates :]
    assert (len(first), len(second)) == (expected.updates, expected.updates)
    assert {line.batch for line in kept.lines} == {expected.batch}
    assert [line.momentum for line in kept.lines] == pytest.approx([expected.momentum] * len(kept.lines))
    assert (first[0].lr, second[0].lr) == pytest.approx(expected.lr)
    assert not any(line.skipped for line in kept.lines)
    assert sum(line.loss for line in second) < sum(line.loss for line in first)
    assert kept.top1[-1] > 15  # of ten classes


def test_rmsprop_warm_up_goes_on_from_a_checkpoint_to_the_bit(me: Workers, sample: Path, tmp_path: Path) -> None:
    words = ["exp=akiba", f"data.path={sample}", "model.stem=4", "model.widths=[4,4]", "run.agree_every_updates=4"]
    short = [*words, "data.train_samples=230"]  # four updates an epoch
    whole = train(me, tmp_path / "whole", [*short, "run.stop_after_updates=7"])
    stopped = [
        line
        for stop in (1, 3, 7)
        for line in train(me, tmp_path / "stopped", [*short, f"run.stop_after_updates={stop}"]).lines
    ]
    assert [(line.update, line.loss, line.lr) for line in stopped] == [
        (line.update, line.loss, line.lr) for line in whole.lines
    ]
    states = [checkpoint.read(RunFolder(tmp_path / name).checkpoint(7)) for name in ("whole", "stopped")]
    one, other = ([state.model, *state.optimizer["state"].values()] for state in states)
    assert len(one) > 1
    for mine, theirs in zip(one, other, strict=True):
        for name, value in mine.items():
            assert torch.equal(theirs[name], value), name
