"""Checkpoints: the state of a run after an update, whole or absent.

`update-000500.pt` opens with plain torch.load(weights_only=True):

    model             weights and batch-norm statistics, by torchvision's names
    optimizer, scaler state of the optimiser and of the loss scale
    batch_norm        statistics of every worker, (workers, n); absent where workers had just averaged them
    update            updates done
    plan              what a resumed run must share: workers, grid, updates of each stage; nodes where they shuffle

`model.pt` holds the last state of `model` alone, ready for torchvision's load_state_dict. Files are written under a
temporary name, synced, then renamed.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.data.epochs import Epochs
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder


@dataclass(frozen=True)
class State:
    """What a checkpoint holds."""

    update: int
    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    scaler: dict[str, Any]
    batch_norm: Tensor | None
    plan: dict[str, Any]


def describe(epochs: Epochs) -> dict[str, Any]:
    """What a checkpoint and the run that goes on with it must share."""
    plan = epochs.plan
    shared: dict[str, Any] = {
        "workers": plan.workers,
        "grid": str(plan.grid),
        "updates_by_stage": plan.updates_by_stage(),
    }
    if epochs.exchange_every > 1:  # the order of samples depends on the nodes
        shared["nodes"] = " + ".join(str(len(workers)) for workers in epochs.layout)
    return shared


def save(folder: RunFolder, state: State, *, keep: int) -> Path:
    """Write a checkpoint and remove all but the newest `keep`."""
    path = folder.checkpoint(state.update)
    _write(path, {name: value for name, value in vars(state).items() if value is not None})
    for update in folder.saved_updates()[:-keep]:
        folder.checkpoint(update).unlink()
    return path


def save_model(folder: RunFolder, model: dict[str, Tensor]) -> None:
    """Write model.pt."""
    _write(folder.model, model)


def newest(folder: RunFolder) -> int | None:
    """The update of the newest checkpoint of a run, None where there is none."""
    return max(folder.saved_updates(), default=None)


def load(folder: RunFolder, update: int, epochs: Epochs) -> State:
    """The checkpoint after `update` updates. Raises UserError where it is damaged or not this plan's."""
    path = folder.checkpoint(update)
    state = read(path)
    found, wanted = state.plan, describe(epochs)
    for name, value in wanted.items():
        if found.get(name) != value:
            raise UserError(f"{path} was saved with {name} {found.get(name)}, this run has {value}; start a new run")
    return state


def read(path: Path) -> State:
    """Read a checkpoint. Raises UserError where it is absent or damaged."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        return State(**{"batch_norm": None, **content})
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint") from None
    except Exception as error:  # torch.load has no error type of its own for damage
        kind = type(error).__name__
        raise UserError(f"{path} is damaged or no checkpoint ({kind}); remove it to use another") from None


def _write(path: Path, content: object) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
