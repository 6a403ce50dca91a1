"""The trainer on real processes: resume to the bit, accumulation equal to real workers, exact validation."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from jobs.compose import compose
from pipeline import checkpoint, preflight, workers
from pipeline.config import Config, make_plan, save
from pipeline.data.memory import stage
from pipeline.evaluate import OneProcess, evaluate
from pipeline.metrics import MetricsFile, UpdateLine
from pipeline.run_folder import RunFolder
from pipeline.trainer import Ending, Trainer
from tests.worlds import run_world

MODEL = ["model.stem=4", "model.widths=[4,4]", "model.blocks=[1,1]", "data.image_size=12", "allreduce.bucket_mb=0.0015"]
SHORT = ["data.train_samples=230", "run.agree_every_updates=4", "optim.lr=1.0"]
"""Few updates an epoch (4 for 64 images an update), so that a run of 12 crosses epochs and agreements."""


class Recorder:
    """An observer that keeps metrics.jsonl and the validations."""

    def __init__(self, folder: RunFolder, update: int, rank: int) -> None:
        self._file = MetricsFile(folder.metrics, update) if rank == 0 else None

    def updates(self, lines: list[UpdateLine]) -> None:
        if self._file:
            self._file.write(lines)

    def validated(self, epoch: float, top1: float) -> None: ...

    def saved(self, update: int) -> None: ...


def train(rank: int, store: dist.Store, config: Config, path: Path, stops: list[int]) -> tuple[Ending, int]:
    """Train in as many attempts as there are stops, each a new trainer that resumes; (last ending, buckets)."""
    plan = make_plan(config)
    folder = RunFolder(path)
    me = workers.connect(config.site, plan.grid, store, workers.Place(rank, rank, 0, 1, OneProcess()))
    indexes = preflight.read_data(config, plan)
    train_memory, validation_memory = stage(indexes, OneProcess())
    for stop in stops:
        config.run.stop_after_updates = stop
        trainer = Trainer(config, plan, me, folder, (train_memory, validation_memory), silent := Late(), lambda: False)
        silent.recorder = Recorder(folder, trainer.update, rank)
        ending = trainer.run()
        buckets = len(trainer._step._parallel._get_ddp_logging_data().get("rebuilt_bucket_sizes", "").split(","))
    dist.barrier()
    return ending, buckets


class Late:
    """An observer that is known only after the trainer has read its checkpoint."""

    recorder: Recorder

    def updates(self, lines: list[UpdateLine]) -> None:
        self.recorder.updates(lines)

    def validated(self, epoch: float, top1: float) -> None: ...

    def saved(self, update: int) -> None: ...


def work(rank: int, _: int, store: dist.Store, words: list[str], path: str, stops: list[int]) -> tuple[float, int, int]:
    ending, buckets = train(rank, store, compose(words), Path(path), stops)
    assert ending.top1 is not None
    return ending.top1, ending.validation_images, buckets


def run(path: Path, words: list[str], stops: list[int]) -> dict[str, Any]:
    """A run in a new folder: its losses and LR, its top-1, and a digest of every tensor of its last checkpoint."""
    config = compose(words)
    folder = RunFolder.create(path)
    outcomes = run_world(make_plan(config).workers, work, words, str(path), stops)
    assert len({top1 for top1, _, _ in outcomes}) == 1
    lines = [line.split('"lr"') for line in folder.metrics.read_text().splitlines()]
    state = checkpoint.read(folder.checkpoint(stops[-1]))
    return {
        "top1": outcomes[0][0],
        "images": outcomes[0][1],
        "buckets": outcomes[0][2],
        "losses": [first for first, _ in lines],
        "lr": [second.split('"batch"')[0] for _, second in lines],
        "tensors": {name: digest(value) for name, value in tensors(vars(state)).items()},
        "model": state.model,
    }


def tensors(tree: Any, name: str = "") -> dict[str, torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return {name: tree}
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return {key: value for inner, child in items for key, value in tensors(child, f"{name}.{inner}").items()}


def digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()


WORLDS = {
    "2x2": ["exp=exp5"],
    "1x4": ["exp=exp5", "grid.vertical=1"],
    "3": ["exp=exp1"],
    "5": ["exp=exp3"],
    "2x3": ["exp=exp4"],
}
STOPS = {"2x2": [1, 3, 7, 8, 10, 12], "1x4": [2, 5, 6, 9, 11, 12], "3": [2, 3, 7, 9, 10, 12]}
STOPS |= {"5": [1, 4, 5, 8, 11, 12], "2x3": [3, 4, 6, 7, 10, 12]}
"""Five stops drawn once at random, and the end; some are agreements (every 4 updates, the end of an epoch)."""


@pytest.mark.parametrize("world", WORLDS)
def test_a_run_stopped_five_times_is_the_uninterrupted_run_to_the_bit(world: str, sample: Path, tmp_path: Path) -> None:
    words = [*WORLDS[world], *MODEL, *SHORT, f"data.path={sample}"]
    whole = run(tmp_path / "whole", words, STOPS[world][-1:])
    stopped = run(tmp_path / "stopped", words, STOPS[world])
    assert whole["buckets"] >= 3
    assert len(whole["losses"]) == 12
    for what in ("losses", "lr", "top1", "tensors"):
        assert stopped[what] == whole[what], what


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={sample}"]
    first, second = (run(tmp_path / name, words, [6]) for name in ("first", "second"))
    other = run(tmp_path / "other", [*words, "seed=1"], [6])
    assert first["tensors"] == second["tensors"]
    assert first["losses"] == second["losses"]
    assert set(other["tensors"].values()).isdisjoint(
        value for name, value in first["tensors"].items() if name.endswith("weight")
    )


def test_accumulation_on_1_and_2_workers_is_4_workers_within_rounding(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={sample}", "allreduce.wire=fp32", "precision.loss_scale=null"]
    one, two, four = (run(tmp_path / str(count), [*words, f"workers={count}"], [6]) for count in (1, 2, 4))
    for fewer in (one, two):
        assert fewer["lr"] == four["lr"]
        for name, value in four["model"].items():
            if "num_batches" not in name:
                torch.testing.assert_close(fewer["model"][name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["exp1", "exp3"])
def test_validation_counts_every_image_once_when_workers_do_not_divide_them(
    name: str, sample: Path, tmp_path: Path
) -> None:
    words = [f"exp={name}", *MODEL, *SHORT, f"data.path={sample}"]
    outcome = run(tmp_path / "run", words, [2])
    assert outcome["images"] == 1000
    config = compose(words)
    save(config, tmp_path / "run" / "config.yaml")
    again = evaluate(RunFolder.open(tmp_path / "run"), None)
    assert (again["top1"], again["validation_images"]) == (outcome["top1"], 1000)
