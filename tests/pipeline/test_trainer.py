"""The trainer on real processes: resume to the bit, accumulation equal to real workers, exact validation."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from jobs.compose import compose
from pipeline import checkpoint, preflight, workers
from pipeline.config import Config, make_plan, save
from pipeline.data import order
from pipeline.data.memory import SampleMemory
from pipeline.data.staging import stage
from pipeline.evaluate import OneProcess, evaluate
from pipeline.metrics import LoopTime, MetricsFile, UpdateLine, ValidationLine, read_metrics
from pipeline.run_folder import RunFolder
from pipeline.trainer import Ending, Trainer
from tests.pipeline.data.images import jpeg, write_images
from tests.worlds import one_node, run_world

MODEL = ["model.stem=4", "model.widths=[4,4]", "model.blocks=[1,1]", "data.image_size=12", "allreduce.bucket_mb=0.0015"]
SHORT = ["data.train_samples=230", "run.agree_every_updates=4", "optim.lr=1.0"]
"""Few updates an epoch (4 for 64 images an update), so that a run of 12 crosses epochs and agreements."""


class Recorder:
    """An observer that keeps metrics.jsonl and the validations."""

    def __init__(self, folder: RunFolder, update: int, rank: int) -> None:
        self._file = MetricsFile(folder.metrics, update) if rank == 0 else None

    def updates(self, lines: list[UpdateLine], time: LoopTime) -> None:  # noqa: ARG002
        if self._file:
            self._file.write(lines)

    def validated(self, line: ValidationLine) -> None: ...

    def saved(self, update: int) -> None: ...

    def slow(self, update: int, line: str) -> None: ...


class Late:
    """An observer that is known only after the trainer has read its checkpoint."""

    recorder: Recorder

    def updates(self, lines: list[UpdateLine], time: LoopTime) -> None:
        self.recorder.updates(lines, time)

    def validated(self, line: ValidationLine) -> None: ...

    def saved(self, update: int) -> None: ...

    def slow(self, update: int, line: str) -> None: ...


@dataclass(frozen=True)
class Job:
    """A run in a folder of its own: in as many attempts as there are stops, each a new trainer that resumes."""

    path: Path
    words: list[str]
    stops: list[int]


def train(rank: int, size: int, store: dist.Store, jobs: list[Job]) -> list[tuple[float, int, int, int]]:
    """Do the jobs one after another; of each (top-1, validation images, buckets, replaced samples)."""
    first = compose(jobs[0].words)
    me = workers.connect(first.site, make_plan(first).grid, store, one_node(rank, size), 60.0)
    found = []
    for job in jobs:
        config = compose(job.words)
        memories = stage(preflight.read_data(config, make_plan(config)), OneProcess())
        for stop in job.stops:
            config.run.stop_after_updates = stop
            ending, buckets = attempt(config, me, RunFolder(job.path), (memories[0], memories[1]))
        assert ending.top1 is not None
        found.append((ending.top1, ending.validation_images, buckets, ending.totals.replaced_samples))
    dist.barrier()
    return found


def attempt(
    config: Config, me: workers.Workers, folder: RunFolder, memories: tuple[SampleMemory, SampleMemory]
) -> tuple[Ending, int]:
    """One attempt: its ending, and how many buckets DDP made."""
    observer = Late()
    trainer = Trainer(config, make_plan(config), me, folder, memories, observer, lambda: False)
    observer.recorder = Recorder(folder, trainer.update, me.rank)
    ending = trainer.run()
    sizes = trainer._step._parallel._get_ddp_logging_data().get("rebuilt_bucket_sizes", "")
    return ending, len(sizes.split(","))


def run(*jobs: Job) -> list[dict[str, Any]]:
    """Of each job: its losses and LR, its top-1, and a digest of every tensor of its last checkpoint."""
    folders = [RunFolder.create(job.path) for job in jobs]
    by_rank = run_world(make_plan(compose(jobs[0].words)).workers, train, list(jobs))
    return [
        outcome(folder, job, [of[i] for of in by_rank])
        for i, (folder, job) in enumerate(zip(folders, jobs, strict=True))
    ]


def outcome(folder: RunFolder, job: Job, of_ranks: list[tuple[float, int, int, int]]) -> dict[str, Any]:
    assert len({top1 for top1, *_ in of_ranks}) == 1
    lines = [line.split('"lr"') for line in folder.metrics.read_text().splitlines()]
    state = checkpoint.read(folder.checkpoint(job.stops[-1]))
    top1, images, buckets, replaced = of_ranks[0]
    return {
        "top1": top1,
        "images": images,
        "buckets": buckets,
        "replaced": replaced,
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
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()


PHASES = ("data", "forward", "backward", "optimiser")

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


LONG = ("3", "5")
"""Worlds that `make test-long` runs: 1x4 and 2x3 have their kinds of ring too."""


@pytest.mark.parametrize(
    "world", [pytest.param(world, marks=pytest.mark.long) if world in LONG else world for world in WORLDS]
)
def test_a_run_stopped_five_times_is_the_uninterrupted_run_to_the_bit(world: str, sample: Path, tmp_path: Path) -> None:
    words = [*WORLDS[world], *MODEL, *SHORT, f"data.path={sample}"]
    whole, stopped = run(
        Job(tmp_path / "whole", words, STOPS[world][-1:]), Job(tmp_path / "stopped", words, STOPS[world])
    )
    assert whole["buckets"] >= 3
    assert len(whole["losses"]) == 12
    for what in ("losses", "lr", "top1", "tensors"):
        assert stopped[what] == whole[what], what


@pytest.mark.long
def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={sample}"]
    (first,) = run(Job(tmp_path / "first", words, [6]))
    second, other = run(Job(tmp_path / "second", words, [6]), Job(tmp_path / "other", [*words, "seed=1"], [6]))
    assert first["tensors"] == second["tensors"]
    assert first["losses"] == second["losses"]
    weights = {name: value for name, value in first["tensors"].items() if name.endswith("weight")}
    assert not set(other["tensors"].values()) & set(weights.values())


def test_accumulation_on_1_and_2_workers_is_4_workers_within_rounding(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={sample}", "allreduce.wire=fp32", "precision.loss_scale=null"]
    one, two, four = (run(Job(tmp_path / str(n), [*words, f"workers={n}"], [6]))[0] for n in (1, 2, 4))
    for fewer in (one, two):
        assert fewer["lr"] == four["lr"]
        for name, value in four["model"].items():
            if "num_batches" not in name:
                torch.testing.assert_close(fewer["model"][name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_a_run_goes_on_with_other_workers_and_another_grid_on_the_same_images(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={sample}", "allreduce.wire=fp32", "precision.loss_scale=null"]
    folder = RunFolder.create(tmp_path / "moved")
    moves = [(4, ["grid.vertical=1"], 3), (4, [], 6), (2, [], 9), (1, [], 12)]
    for size, more, stop in moves:
        job = Job(folder.path, [*words, f"workers={size}", *more, "resume.regrid=true"], [stop])
        of_ranks = run_world(size, train, [job])
    moved = outcome(folder, job, [of[0] for of in of_ranks])
    (whole,) = run(Job(tmp_path / "whole", words, [12]))
    assert moved["lr"] == whole["lr"]
    losses = [[json.loads(line.rstrip(", ") + "}")["loss"] for line in of["losses"]] for of in (moved, whole)]
    assert len(losses[0]) == 12
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    for name, value in whole["model"].items():
        if "num_batches" not in name:
            torch.testing.assert_close(moved["model"][name], value, rtol=1e-3, atol=1e-4)


def test_a_trace_names_the_phases_of_its_updates(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={sample}", "workers=1", "run.profile=2"]
    run(Job(tmp_path / "run", words, [6]))
    (path,) = (tmp_path / "run" / "profile").iterdir()
    assert path.name == "rank-0-updates-4-5.json"
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    threads = {name: [event["tid"] for event in events if event["name"] == name] for name in PHASES}
    counts = {name: len(tids) for name, tids in threads.items()}
    assert counts == {"data": 2, "forward": 8, "backward": 8, "optimiser": 2}  # one worker takes four micro-batches
    (main,) = {tid for tids in threads.values() for tid in tids}
    averaging = {event["name"]: event["tid"] for event in events if event["name"].startswith("all-reduce: ")}
    assert {"all-reduce: reduce-scatter, row", "all-reduce: all-gather, row"} <= set(averaging)
    assert main not in averaging.values()


def test_every_update_says_what_averaging_took_and_how_much_was_not_hidden(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={sample}", "workers=2"]
    run(Job(tmp_path / "run", words, [6]))
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert len(lines) == 6
    for line in lines:
        assert 0 < line["communication_exposed_s"] <= line["communication_s"]


def test_a_run_on_auto_leaves_what_it_took_and_one_that_goes_on_takes_that(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={sample}", "allreduce=auto", "allreduce.candidates=[torus,ring]"]
    first, going_on = (RunFolder.create(tmp_path / name) for name in ("first", "going-on"))
    going_on.all_reduce.write_text(json.dumps({"name": "tree"}))  # a choice that measuring these two cannot give
    run_world(4, train, [Job(first.path, words, [3]), Job(going_on.path, words, [3])])
    left = json.loads(first.all_reduce.read_text())
    assert left["asked_for"] == "auto"
    assert left["name"] == left["measured"][0]["name"]
    assert sorted(row["name"] for row in left["measured"]) == ["ring", "torus"]
    assert left["transport"].startswith("gloo, TCP sockets on ")
    assert json.loads(going_on.all_reduce.read_text())["name"] == "tree"


def test_validation_counts_every_image_once_when_workers_do_not_divide_them(sample: Path, tmp_path: Path) -> None:
    words = ["exp=exp1", *MODEL, *SHORT, f"data.path={sample}"]  # 3 workers, 1,000 images
    (validated,) = run(Job(tmp_path / "run", words, [2]))
    assert validated["images"] == 1000
    save(compose(words), tmp_path / "run" / "config.yaml")
    again = evaluate(RunFolder.open(tmp_path / "run"), None)
    assert (again["top1"], again["validation_images"]) == (validated["top1"], 1000)


def test_replaced_samples_are_counted_over_all_workers(tmp_path: Path) -> None:
    images = [jpeg(number) for number in range(230)]
    images[5] = images[100] = b"no image"
    write_images(tmp_path / "data", train=images, validation=images[:21])
    words = ["exp=exp5", *MODEL, *SHORT, f"data.path={tmp_path}/data", "data.on_bad_sample=replace"]
    plan = make_plan(compose(words))
    seen = [
        order.update_samples(order.permutation(0, update // 4, 230), update % 4, plan.stages[0]) for update in range(6)
    ]
    expected = int(np.isin(np.concatenate(seen), (5, 100)).sum())
    assert expected >= 2
    (trained,) = run(Job(tmp_path / "run", words, [6]))
    assert (trained["replaced"], trained["images"]) == (expected, 21)
