"""Checks inside the job, before update 0: what only the machines of the job can tell."""

from pathlib import Path

import torch

from pipeline.config import Plan
from pipeline.config.schema import Config
from pipeline.data.shards import Index, read_classes, read_index
from pipeline.errors import UserError


def read_data(config: Config, plan: Plan) -> tuple[Index, Index]:
    """The indexes of the training samples that the plan uses and of the validation images, checked against it."""
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
    return train.first(plan.samples), validation


def set_threads(threads: int) -> None:
    """Threads of this worker's arithmetic: a value of the configuration, since their number changes bits."""
    torch.set_num_threads(threads)
