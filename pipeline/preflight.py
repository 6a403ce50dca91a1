"""Checks inside the job, before update 0: what only the machines of the job can tell."""

from pathlib import Path

import numpy as np
import torch

from pipeline.config import Plan
from pipeline.config.schema import Config
from pipeline.data.segment import Communicator
from pipeline.data.shards import Index, read_classes, read_index
from pipeline.errors import UserError


def read_data(config: Config, plan: Plan, world: Communicator | None = None) -> tuple[Index, Index]:
    """The indexes of the training samples that the plan uses and of the validation images, checked against it.

    world: all workers, of which the first reads: a thousand that open a thousand files each are a burden to a parallel
    file system. Raises UserError, the same on all of them.
    """
    if world is None:
        return _read_data(config, plan)
    found: tuple[Index, Index] | UserError | None = None
    if world.Get_rank() == 0:
        try:
            found = _read_data(config, plan)
        except UserError as error:
            found = error
    found = world.bcast(found)
    if isinstance(found, UserError):
        raise found
    assert found is not None, "the first worker has read them"
    return found


def _read_data(config: Config, plan: Plan) -> tuple[Index, Index]:
    folder = Path(config.data.path)
    classes = read_classes(folder)
    if classes != config.model.classes:
        raise UserError(f"model.classes={config.model.classes}, but {folder} has {classes} classes; make them agree")
    train, validation = read_index(folder, "train"), read_index(folder, "validation")
    if plan.samples > len(train):
        raise UserError(
            f"the run needs {plan.samples:,} training samples and {folder} has {len(train):,}; "
            f"data.train_samples={len(train)} would use them all"
        )
    for use, index in (("train on", train), ("validate with", validation)):
        _check_samples(index, classes, use)
    return train.first(plan.samples), validation


LONGEST_SIDE = 2**20
"""Pixels; JPEG ends at 2**16."""


def _check_samples(index: Index, classes: int, use: str) -> None:
    """Raise UserError for a split without samples and for a sample that cannot be one. use: what the split is for."""
    if not len(index):
        raise UserError(
            f"{index.folder} has no images to {use}; prepare it again, where only a validation split is missing with "
            "ARGS=prepare.validation_share=0.1, which holds out a tenth of each class"
        )
    shortest, longest = np.minimum(index.width, index.height), np.maximum(index.width, index.height)
    wrong = np.flatnonzero((index.label >= classes) | (shortest < 1) | (longest > LONGEST_SIDE))
    if len(wrong):
        sample = int(wrong[0])
        raise UserError(
            f"sample {index.where(sample)} has label {index.label[sample]} and {index.width[sample]}x"
            f"{index.height[sample]} pixels; labels go from 0 to {classes - 1}, sides from 1 to {LONGEST_SIDE:,}"
        )


def set_threads(threads: int) -> None:
    """Threads of this worker's arithmetic: a value of the configuration, since their number changes bits."""
    torch.set_num_threads(threads)
