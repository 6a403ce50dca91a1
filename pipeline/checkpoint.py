"""Checkpoints: the state of a run after an update, whole or absent.

`update-000500.pt` opens with plain torch.load(weights_only=True):

    model             weights and batch-norm statistics, by torchvision's names
    optimizer, scaler state of the optimiser and of the loss scale
    batch_norm        statistics of every worker, (workers, n); absent where workers had just averaged them
    update            updates done
    plan              what a resumed run must share: updates and batches of each stage; workers and grid unless
                      resume.regrid; nodes where they shuffle
    configuration     the keys that make the run what it is, and their values (pipeline.config.identity)

`update-000500.pt.sha256` is its checksum, as `sha256sum --check` reads it. `model.pt` holds the last state of `model`
alone, ready for torchvision's load_state_dict. Files are written under a temporary name, synced, then renamed, the
checksum first.
"""

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from pipeline.config.identity import is_kept
from pipeline.data.epochs import Epochs
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder, write_atomically


@dataclass(frozen=True)
class State:
    """What a checkpoint holds."""

    update: int
    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    scaler: dict[str, Any]
    batch_norm: Tensor | None
    plan: dict[str, Any]
    configuration: dict[str, str] = field(default_factory=dict)


def describe(epochs: Epochs) -> dict[str, Any]:
    """What a checkpoint and the run that goes on with it must share."""
    plan = epochs.plan
    shared: dict[str, Any] = {
        "workers": plan.workers,
        "grid": str(plan.grid),
        "updates_by_stage": plan.updates_by_stage(),
        "total_batches": [stage.total_batch for stage in plan.stages],
    }
    if epochs.exchange_every > 1:  # the order of samples depends on the nodes
        shared["nodes"] = " + ".join(str(len(workers)) for workers in epochs.layout)
    return shared


def save(folder: RunFolder, state: State, *, keep: int) -> Path:
    """Write a checkpoint and remove all but the newest `keep`. Raises UserError where it cannot be written."""
    path = folder.checkpoint(state.update)
    _write(path, {name: value for name, value in vars(state).items() if value is not None}, checksum=True)
    for update in folder.saved_updates()[:-keep]:
        _remove(folder.checkpoint(update))
    return path


def save_model(folder: RunFolder, model: dict[str, Tensor]) -> None:
    """Write model.pt."""
    _write(folder.model, model)


def newest(folder: RunFolder) -> int | None:
    """The update of the newest checkpoint of a run, None where there is none."""
    return max(folder.saved_updates(), default=None)


def sift(folder: RunFolder) -> list[str]:
    """Put damaged checkpoints that are newer than the newest good one out of the way; a line for each.

    They stay beside the good ones as `update-000500.pt.damaged`. What an interrupted writer left is removed.
    Raises UserError where there are some and none is good: a run does not begin anew by itself.
    """
    for scrap in folder.checkpoints.glob(".*.pt*"):
        scrap.unlink(missing_ok=True)
    damaged: list[tuple[Path, str]] = []
    for update in reversed(folder.saved_updates()):
        path = folder.checkpoint(update)
        try:
            _check(path)
        except UserError as error:
            damaged.append((path, str(error)))
            continue
        for other, _ in damaged:
            other.replace(other.with_name(f"{other.name}.damaged"))
            _checksum_of(other).unlink(missing_ok=True)
        return [f"{why}; going on from update {update}" for _, why in damaged]
    if damaged:
        raise UserError(
            f"no checkpoint of {folder} is good: {damaged[0][1]}; to begin anew, remove what is in {folder.checkpoints}"
        )
    return []


def load(
    folder: RunFolder, update: int, epochs: Epochs, configuration: dict[str, str], *, regrid: bool = False
) -> State:
    """The checkpoint after `update` updates.

    configuration: `identity` of the run that goes on. regrid: whether workers and their grid may be others.

    Raises UserError where it is damaged, not this plan's, or of another configuration.
    """
    path = folder.checkpoint(update)
    state = read(path)
    free = ("workers", "grid") if regrid else ()
    pairs = [(name, state.plan[name], value) for name, value in describe(epochs).items() if name in state.plan]
    pairs += [
        (key, state.configuration[key], value) for key, value in configuration.items() if key in state.configuration
    ]
    for name, found, value in pairs:
        if found != value and name not in free and is_kept(name, regrid=regrid):
            mend = "; resume.regrid=true goes on with other workers" if name in ("workers", "grid") else ""
            raise UserError(f"{path} was saved with {name} {found}, this run has {value}; start a new run{mend}")
    return state


def read(path: Path) -> State:
    """Read a checkpoint. Raises UserError where it is absent or damaged."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        return State(**{"batch_norm": None, **content})  # what an older one lacks has its default
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint") from None
    except Exception as error:  # torch.load has no error type of its own for damage
        kind = type(error).__name__
        raise UserError(f"{path} is damaged or no checkpoint ({kind}); remove it to use another") from None


def _check(path: Path) -> None:
    """Raise UserError where a checkpoint is not what was written; one without a checksum must open at least."""
    try:
        said = _checksum_of(path).read_text().split()[:1]
    except OSError:
        read(path)
        return
    with path.open("rb") as file:
        if said != [hashlib.file_digest(file, "sha256").hexdigest()]:
            raise UserError(f"{path} is damaged: its SHA-256 is not that of {_checksum_of(path).name}")


def _checksum_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _remove(path: Path) -> None:
    path.unlink()
    _checksum_of(path).unlink(missing_ok=True)


class _Hashing:
    """A file that is written from start to end, and its SHA-256."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def write(self, content: Any) -> int:
        self.digest.update(content)
        return self._file.write(content)

    def flush(self) -> None:
        self._file.flush()


def _write(path: Path, content: object, *, checksum: bool = False) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            hashing = _Hashing(file)
            torch.save(content, hashing)  # type: ignore[arg-type]  # which only writes and flushes
            file.flush()
            os.fsync(file.fileno())
        if checksum:
            write_atomically(_checksum_of(path), f"{hashing.digest.hexdigest()}  {path.name}\n")
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {error.strerror}") from None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
