"""Validate a run's checkpoint again: `python -m pipeline.evaluate RUN_FOLDER [--checkpoint FILE]`. One process.

Prints the top-1 and adds a line to the run's evaluations.jsonl.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from pipeline import checkpoint, models, preflight
from pipeline.config import load, make_plan
from pipeline.data.loader import validation_batches
from pipeline.data.shards import read_index
from pipeline.data.staging import stage
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED, RunFolder
from pipeline.trainer import VALIDATION_BATCH, percent
from pipeline.validation import count_correct


class OneProcess:
    """A node of one worker."""

    def Get_rank(self) -> int:
        return 0

    def Get_size(self) -> int:
        return 1

    def bcast(self, obj: Any, root: int = 0) -> Any:  # noqa: ARG002 - mpi4py's own name
        return obj

    def allgather(self, sendobj: Any) -> list[Any]:
        return [sendobj]

    def Barrier(self) -> None: ...


def evaluate(folder: RunFolder, path: Path | None) -> dict[str, object]:
    """Top-1 of a checkpoint (the newest unless `path` names one) on all validation images."""
    config = load(folder.config)
    if config.data.synthetic:
        raise UserError(f"{folder} trained on noise (data.synthetic=true), so there is nothing to validate it on")
    plan = make_plan(config)
    preflight.set_threads(config.site.threads_per_worker)
    saved = folder.saved_updates()
    if path is None and not saved:
        raise UserError(
            f"{folder} has no checkpoint yet; one is written every {config.run.checkpoint_every_updates} updates"
        )
    path, state = (path, checkpoint.read(path)) if path else newest_good(folder, saved)
    model = models.build(config.model).to(memory_format=torch.channels_last)
    with checkpoint.fitting(path):
        model.load_state_dict(state.model)
    (memory,) = stage([read_index(Path(config.data.path), "validation")], OneProcess())
    batches = validation_batches(memory, config.data, worker=0, workers=1, batch=VALIDATION_BATCH)
    counts = count_correct(model, batches, torch.device("cpu"))
    return {
        "update": state.update,
        "updates": plan.updates,
        "top1": percent(counts),
        "validation_images": int(counts[1]),
    }


def newest_good(folder: RunFolder, saved: list[int]) -> tuple[Path, checkpoint.State]:
    """The newest checkpoint that is what was written; a damaged one is told and left as it is. Raises UserError."""
    damaged = []
    for update in reversed(saved):
        path = folder.checkpoint(update)
        try:
            state = checkpoint.check(path)
        except checkpoint.DamagedError as error:
            damaged.append(str(error))
            continue
        for line in damaged:
            print(f"warning: {line}; this is of update {update}", file=sys.stderr, flush=True)
        return path, state
    raise UserError(f"no checkpoint of {folder} is good: {damaged[0]}")


def main(arguments: list[str]) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make evaluate RUN=…", description=__doc__)
    parser.add_argument("run", help="run folder")
    parser.add_argument("--checkpoint", type=Path, help="a file of its checkpoints/; the newest by default")
    options = parser.parse_args(arguments)
    os.umask(0o077)  # a run folder is its owner's
    try:
        folder = RunFolder.open(options.run)
        found = evaluate(folder, options.checkpoint)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    with folder.evaluations.open("a") as file:
        file.write(json.dumps(found) + "\n")
    print(
        f"{folder}: top-1 {found['top1']:.2f} % of {found['validation_images']:,} held-out images "
        f"after {found['update']:,} of {found['updates']:,} updates"
    )
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
