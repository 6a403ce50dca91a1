"""A few updates of a trainer on real worker processes, one of which is struck in its backward pass."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch.distributed as dist
from torch import Tensor

from jobs.compose import compose
from pipeline import preflight, workers
from pipeline.config import make_plan
from pipeline.data.staging import stage
from pipeline.evaluate import OneProcess
from pipeline.metrics import read_metrics
from pipeline.run_folder import RunFolder
from pipeline.trainer import Trainer
from tests.pipeline.test_trainer import Late, Recorder, digest
from tests.worlds import one_node, run_world

Strike = Callable[[int, int, Tensor], Tensor]
"""Given rank, update (from 1) and the gradient of the last layer's bias, before it is averaged; what to take for it."""


@dataclass(frozen=True)
class Trained:
    """What a worker found."""

    weights: list[dict[str, str]]
    """A digest of each, after every update."""
    scale: float
    """The loss scale at the end."""
    slow: list[str]
    """What was told of slow updates; on the first worker."""


def train_struck(path: Path, words: list[str], updates: int, strike: Strike) -> tuple[list[Trained], list[dict]]:  # type: ignore[type-arg]
    """What four workers found of a new run, and its metrics. strike: a module's function."""
    folder = RunFolder.create(path)
    return run_world(4, _train, path, words, updates, strike), read_metrics(folder.metrics)


class Told(Late):
    """Keeps what is told of slow updates."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def slow(self, update: int, line: str) -> None:  # noqa: ARG002
        self.lines.append(line)


def _train(
    rank: int, size: int, store: dist.Store, path: Path, words: list[str], updates: int, strike: Strike
) -> Trained:
    config = compose(words)
    plan, folder = make_plan(config), RunFolder(path)
    me = workers.connect(config.site, plan.grid, store, one_node(rank, size), 60.0)
    memories = stage(preflight.read_data(config, plan), OneProcess())
    observer = Told()
    trainer = Trainer(config, plan, me, folder, (memories[0], memories[1]), observer, lambda: False)
    observer.recorder = Recorder(folder, trainer.update, me.rank)
    bias = trainer._step.model.get_parameter("fc.bias")
    bias.register_hook(lambda gradient: strike(rank, trainer.update + 1, gradient))
    weights = []
    loader = trainer.loader()
    batches = iter(loader)
    trainer.start_clock()
    for _ in range(updates):
        trainer.advance(batches)
        weights.append({name: digest(value) for name, value in trainer._step.model.named_parameters()})
    loader.close()
    trainer._end(requested=True)
    dist.barrier()
    return Trained(weights, trainer._step.scaler.get_scale(), observer.lines)
