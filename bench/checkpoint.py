"""What a checkpoint of ImageNet's size takes out of training: `make bench-checkpoint`, or `python -m bench.checkpoint`.

ResNet-50 at 224 pixels: weights, batch-norm statistics and momentum, 205 MB, and model.pt. One worker makes real
updates (forward, backward, averaging, LARS) in pairs of blocks, one of which begins with a checkpoint. A block is long
enough that its writer is done before its end, so what the block takes longer is all that a checkpoint costs:

    copy      the training thread copies the state, and goes on
    slowing   updates are slower while the writing thread takes a checksum and writes

The share is of the loop between two checkpoints: run.checkpoint_every_updates updates as they are here, and as they
were in the paper's quickest run, whose GPUs are a hundred times as quick as a core. Blocks' medians count.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from jobs import compose, local
from pipeline.config import load, make_plan, save
from pipeline.run_folder import RunFolder

WORDS = ["exp=reference", "data=synthetic", "model=resnet50", "workers=1", "recipe.label_smoothing=0.1"]

PAPERS_UPDATE_S = 224 / 2250
"""An update of the 224 seconds: of the 2,250 that Exp. 2 has by the rebuilt stages (conf/exp/exp2.yaml)."""

GOAL = 0.01


@dataclass(frozen=True)
class Cost:
    """What was measured: medians over pairs of blocks."""

    checkpoint_bytes: int
    update_s: float
    write_s: float
    """What the writing thread took, beside training."""
    copy_s: float
    slowing_s: float
    every_updates: int

    @property
    def cost_s(self) -> float:
        return self.copy_s + self.slowing_s

    def share(self, update_s: float) -> float:
        """Of the loop between two checkpoints whose updates take so long."""
        return self.cost_s / (self.every_updates * update_s)

    def as_json(self) -> dict[str, int | float]:
        shares = {"share_here": self.share(self.update_s), "share_at_the_papers_pace": self.share(PAPERS_UPDATE_S)}
        return {**vars(self), "cost_s": self.cost_s, **shares, "goal": GOAL}


def main(arguments: list[str]) -> int:
    """Start the worker, print its table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--pairs", type=int, default=7, help="of blocks")
    parser.add_argument("--batch", type=int, default=4, help="images an update")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, as run.checkpoint_every_updates=200")
    options = parser.parse_args(arguments)
    if options.worker is not None:
        work(RunFolder(options.worker), options.pairs, options.batch)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder.create(Path(scratch) / "run")
        config = compose.compose([*WORDS, *options.overrides])
        save(config, folder.config)
        words = ["--worker", str(folder.path), "--pairs", str(options.pairs), "--batch", str(options.batch)]
        command = local.launch_command(1, [sys.executable, "-m", "bench.checkpoint", *words])
        environment = local.environment() | {"OMP_NUM_THREADS": str(config.site.threads_per_worker)}
        subprocess.run(command, check=True, env=environment)
        cost = Cost(**json.loads((folder.path / "cost.json").read_text()))
    print_cost(cost, Console(highlight=False, width=None if sys.stdout.isatty() else 120))
    if options.json:
        options.json.write_text(json.dumps(cost.as_json(), indent=1) + "\n")
    return 0


def print_cost(cost: Cost, console: Console) -> None:
    """The table."""
    title = f"A checkpoint of {cost.checkpoint_bytes / 1e6:.0f} MB, {os.cpu_count()} cores"
    table = Table(title=title, title_justify="left")
    for name in ("what", "s"):
        table.add_column(name, justify="left" if name == "what" else "right")
    seconds = {
        "an update": cost.update_s,
        "writing, beside the updates": cost.write_s,
        "copy, in the training thread": cost.copy_s,
        "slowing of the updates meanwhile": cost.slowing_s,
        "all that it costs": cost.cost_s,
    }
    for name, value in seconds.items():
        table.add_row(name, f"{value:.3f}")
    console.print(table)
    for name, update_s in (("here", cost.update_s), ("in the paper's quickest run", PAPERS_UPDATE_S)):
        console.print(
            f"{100 * cost.share(update_s):.2f} % of the loop with a checkpoint every {cost.every_updates} updates of "
            f"{update_s:.2f} s, as {name}; goal: below {100 * GOAL:g} %"
        )


def work(folder: RunFolder, pairs: int, batch: int) -> None:
    """The worker: measure, write cost.json."""
    import torch

    from pipeline import preflight, workers
    from pipeline.config.identity import identity
    from pipeline.data.epochs import Epochs
    from pipeline.data.loader import Batch
    from pipeline.optim.schedule import position
    from pipeline.saving import Saver
    from pipeline.step import Step

    config = load(folder.config)
    plan = make_plan(config)
    preflight.set_threads(config.site.threads_per_worker)
    me = workers.start(config.site, plan.grid, config.allreduce.timeout_s)
    step, here = Step(config, me), position(config.optim, plan, plan.updates // 2)
    keep = config.run.keep_checkpoints
    saver = Saver(folder, step, me, Epochs(config.seed, plan), identity(config), keep=keep, finite=True)
    size = config.data.image_size
    images = torch.randn(batch, 3, size, size).contiguous(memory_format=torch.channels_last)
    batches = [Batch(images, torch.arange(batch))]

    def update() -> None:
        step.update(batches, here).loss.item()

    def begin_saving(number: int) -> None:
        saver.save(number, averaged=True)

    figures = measured(update, begin_saving, saver.finish, pairs)
    cost = Cost(
        checkpoint_bytes=folder.checkpoint(max(folder.saved_updates())).stat().st_size,
        every_updates=config.run.checkpoint_every_updates,
        **figures,
    )
    (folder.path / "cost.json").write_text(json.dumps(vars(cost)))
    workers.stop(me.heartbeat)


def measured(
    update: Callable[[], object], begin_saving: Callable[[int], object], finish: Callable[[], object], pairs: int
) -> dict[str, Any]:
    """Medians over pairs of blocks, the fields of `Cost`.

    update: makes one. begin_saving: starts the checkpoint with a number, and returns once training may go on. finish:
    waits until it is written.
    """
    for _ in range(2):  # the first has no momentum yet
        update()
    update_s = _seconds(update)
    begin_saving(0)
    write_s = _seconds(finish)
    updates = max(4, math.ceil(2 * write_s / update_s))
    plain, saving = [], []
    for number in range(1, pairs + 1):
        plain.append(_seconds(lambda: [update() for _ in range(updates)]))
        saving.append(_block(partial(begin_saving, number), update, updates, finish))
    copy_s = statistics.median(copied_s for copied_s, _ in saving)
    longer_s = statistics.median(whole_s - other_s for (_, whole_s), other_s in zip(saving, plain, strict=True))
    return {
        "update_s": statistics.median(plain) / updates,
        "write_s": write_s,
        "copy_s": copy_s,
        "slowing_s": max(0.0, longer_s - copy_s),
    }


def _block(
    begin_saving: Callable[[], object], update: Callable[[], object], updates: int, finish: Callable[[], object]
) -> tuple[float, float]:
    """Seconds of the beginning of a checkpoint, and of a block with it."""
    began = time.perf_counter()
    copied_s = _seconds(begin_saving)
    for _ in range(updates):
        update()
    finish()
    return copied_s, time.perf_counter() - began


def _seconds(act: Callable[[], Sequence[object] | object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
