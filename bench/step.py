"""The trainer's step against a bare loop of the same model and batch: `make bench`, or `python -m bench.step`.

The peer is what one would write by hand: torch's DistributedDataParallel with its own all-reduce, SGD with momentum,
and a batch that is already decoded. Ours decodes its images, averages on the 2D torus in fp16, scales the loss, does
LARS, follows the schedule, writes metrics and agrees every few updates. Both run in the same processes, in turn, block
by block; the medians over all blocks are compared.
"""

import argparse
import itertools
import json
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

from rich.console import Console
from rich.table import Table

from jobs import compose, local
from pipeline.config import load, make_plan, save
from pipeline.run_folder import RunFolder

UPDATES_A_BLOCK = 20
COLUMNS = {"batch": "images a worker", "ours_ms": "trainer, ms", "bare_ms": "bare loop, ms", "ratio": "ratio"}


@dataclass(frozen=True)
class Row:
    """A line of the table: medians of one update."""

    batch: str
    updates: int
    """Updates of the run that are of this kind."""
    ours_ms: float
    bare_ms: float

    def as_json(self) -> dict[str, str | int | float]:
        return {**vars(self), "ratio": self.ours_ms / self.bare_ms}


def main(arguments: list[str]) -> int:
    """Start the workers, print their table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    parser.add_argument("--blocks", type=int, default=8, help=f"blocks of {UPDATES_A_BLOCK} updates a batch size")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, as exp=exp2")
    options = parser.parse_args(arguments)
    if options.worker is not None:
        work(RunFolder(options.worker), options.blocks)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder.create(Path(scratch) / "run")
        config = compose.compose(options.overrides)
        save(config, folder.config)
        plan = make_plan(config)
        command = [sys.executable, "-m", "bench.step", "--worker", str(folder.path), "--blocks", str(options.blocks)]
        environment = local.environment() | {"OMP_NUM_THREADS": str(config.site.threads_per_worker)}
        subprocess.run(local.launch_command(plan.workers, command), check=True, env=environment)
        rows = json.loads((folder.path / "rows.json").read_text())
    title = f"One update of {config.experiment} on {plan.workers} workers, {os.cpu_count()} cores"
    table = Table(title=title, title_justify="left")
    for name in COLUMNS.values():
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(str(row["batch"]), f"{row['ours_ms']:.1f}", f"{row['bare_ms']:.1f}", f"{row['ratio']:.2f}")
    Console(highlight=False).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def work(folder: RunFolder, blocks: int) -> None:
    """One worker: measure ours and the bare loop at every stage's batch; the first one writes rows.json."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    from pipeline import models, preflight, workers
    from pipeline.data.loader import Batch
    from pipeline.data.staging import stage
    from pipeline.train import Silent
    from pipeline.trainer import Trainer

    config = load(folder.config)
    plan = make_plan(config)
    preflight.set_threads(config.site.threads_per_worker)
    me = workers.start(config.site, plan.grid, config.allreduce.timeout_s)
    train, validation = stage(preflight.read_data(config, plan), me.place.node_workers)
    trainer = Trainer(config, plan, me, folder, (train, validation), Silent(), lambda: False)
    trainer.start_clock()

    model = models.build(config.model).to(memory_format=torch.channels_last)
    bare = DistributedDataParallel(model, forward_sync_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(bare.parameters(), lr=1e-3, momentum=0.9)
    criterion = nn.CrossEntropyLoss()

    rows: list[Row] = []
    for here in plan.stages:
        trainer.update = plan.first_update(here.start_epoch)
        loader = trainer.loader()
        batches = iter(loader)
        decoded = next(batches)
        trainer.update += 1

        def bare_update(decoded: Sequence[Batch] = decoded) -> None:
            for batch in decoded:
                optimizer.zero_grad()
                criterion(bare(batch.images), batch.labels).backward()
                optimizer.step()

        ours_ms, bare_ms = in_turn(partial(trainer.advance, batches), bare_update, blocks, dist.barrier)
        loader.close()
        rows.append(Row(str(here.per_worker_batch), here.updates, ours_ms, bare_ms))
    if me.is_head:
        rows.append(Row("whole run", plan.updates, mean(rows, "ours_ms"), mean(rows, "bare_ms")))
        (folder.path / "rows.json").write_text(json.dumps([row.as_json() for row in rows]))
    workers.stop(me.heartbeat)


def mean(rows: Sequence[Row], name: str) -> float:
    """Mean over the updates of the whole run."""
    return sum(row.updates * getattr(row, name) for row in rows) / sum(row.updates for row in rows)


def in_turn(
    ours: Callable[[], object], bare: Callable[[], object], blocks: int, barrier: Callable[[], object]
) -> tuple[float, float]:
    """Median milliseconds of one call of each, over `blocks` blocks in turn, after one of each that is not counted."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for block, is_ours in itertools.product(range(blocks + 1), (True, False)):
        update = ours if is_ours else bare
        barrier()
        began = time.perf_counter()
        for _ in range(UPDATES_A_BLOCK):
            update()
        barrier()
        if block:
            times[is_ours].append((time.perf_counter() - began) / UPDATES_A_BLOCK * 1000)
    return statistics.median(times[True]), statistics.median(times[False])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
