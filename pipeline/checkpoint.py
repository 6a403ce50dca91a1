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

import contextlib
import hashlib
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from pipeline.config.identity import is_kept
from pipeline.data.epochs import Epochs
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder, check_regular, write_atomically

SUM_BYTES = 4096
"""More than a checksum's file has."""


class DamagedError(UserError):
    """A checkpoint is not what was written, so that the one before it is to be used."""


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


def sift(folder: RunFolder, *, last: int | None = None) -> list[str]:
    """Put damaged checkpoints that are newer than the newest good one out of the way; a line for each.

    last: the run's last update. They stay beside the good ones as `update-000500.pt.damaged`. What an interrupted
    writer left is removed. Raises UserError where there are some and none is good: a run does not begin anew by itself.
    """
    for scrap in folder.checkpoints.glob(".*.pt*"):
        with contextlib.suppress(OSError):  # no file: none of ours
            scrap.unlink()
    damaged: list[tuple[Path, str]] = []
    for update in reversed(folder.saved_updates()):
        path = folder.checkpoint(update)
        try:
            check(path, last=last)
        except DamagedError as error:
            damaged.append((path, str(error)))
            continue
        for other, _ in damaged:
            _put_aside(other)
        return [f"{why}; going on from update {update}" for _, why in damaged]
    if damaged:
        raise UserError(
            f"no checkpoint of {folder} is good: {damaged[0][1]}; to begin anew, remove what is in {folder.checkpoints}"
        )
    return []


def _put_aside(path: Path) -> None:
    """A damaged checkpoint is nothing of the run's any more; one that was there stays too."""
    names = chain([f"{path.name}.damaged"], (f"{path.name}.damaged-{number}" for number in count(2)))
    path.replace(next(one for one in map(path.with_name, names) if not os.path.lexists(one)))
    with contextlib.suppress(OSError):
        _checksum_of(path).unlink()


def check(path: Path, *, last: int | None = None) -> State:
    """A checkpoint that is what was written: by its checksum, where it has one, and by the update of its name.

    last: the run's last update, beyond which there is none. Raises DamagedError for any other, UserError where it
    cannot be read.
    """
    _check_regular(path)
    try:
        _check_sum(path)
    except OSError as error:
        raise UserError(f"{error.filename} cannot be read: {error.strerror}") from None
    state = read(path)
    if path.name != RunFolder(path.parent.parent).checkpoint(state.update).name:
        raise DamagedError(f"{path} is damaged: it holds the state after update {state.update}")
    if last is not None and state.update > last:
        raise DamagedError(f"{path} is damaged: the run ends at update {last}")
    return state


def _check_regular(path: Path) -> None:
    """Raise DamagedError for what is no file, and would never come to an end."""
    try:
        check_regular(path)
    except UserError as error:
        raise DamagedError(f"{path} is damaged: {str(error).removeprefix(f'{path} ')}") from None


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
            mend = ", or go on with other workers by resume.regrid=true" if name in ("workers", "grid") else ""
            raise UserError(f"{path} was saved with {name} {found}, this run has {value}; start a new run{mend}")
    return state


def read(path: Path) -> State:
    """Read a checkpoint. Raises UserError where it is absent or cannot be read, DamagedError where it is damaged."""
    _check_regular(path)
    try:
        _check_archive(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
        return _as_state(content, path.stat().st_size)
    except FileNotFoundError:
        raise DamagedError(f"{path}: no such checkpoint") from None
    except PermissionError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except Exception as error:  # torch.load has no error type of its own for damage
        kind = type(error).__name__
        raise DamagedError(f"{path} is damaged or no checkpoint ({kind}); remove it to use another") from None


@contextmanager
def fitting(path: Path) -> Iterator[None]:
    """Raise UserError where what `path` holds does not fit what it is put into while the body runs."""
    try:
        yield
    except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())[:200]
        raise UserError(f"{path} does not fit this run ({type(error).__name__}: {why}); start a new run") from None


def _check_archive(path: Path) -> None:
    """Raise ValueError for what torch.save did not write: a small file that would be unpacked into a large memory."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("it is compressed")
    if sum(member.file_size for member in members) > path.stat().st_size:
        raise ValueError("its members overlap")


def _as_state(content: dict[str, Any], file_bytes: int) -> State:
    """The state that a checkpoint of `file_bytes` holds. Raises TypeError or ValueError for what is none."""
    state = State(**{"batch_norm": None, **content})  # what an older one lacks has its default
    tables = (state.model, state.optimizer, state.scaler, state.plan, state.configuration)
    if not isinstance(state.update, int) or not all(isinstance(table, dict) for table in tables):
        raise TypeError("its parts are not those of a checkpoint")
    if sum(tensor.numel() * tensor.element_size() for tensor in _tensors(vars(state))) > file_bytes:
        raise ValueError("its tensors are larger than the file")  # views that repeat a number
    return state


def _tensors(tree: Any) -> Iterator[Tensor]:
    """Every tensor in nested dicts, lists and tuples."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict | list | tuple):
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from _tensors(one)


def _check_sum(path: Path) -> None:
    """Raise DamagedError where a checkpoint has another checksum than the one beside it; one without any passes."""
    _check_regular(_checksum_of(path))
    try:
        with _checksum_of(path).open("rb") as file:
            said = file.read(SUM_BYTES).decode(errors="replace").split()[:1]
    except FileNotFoundError:
        return
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise DamagedError(f"{path}: no such checkpoint") from None
    if said != [found]:
        raise DamagedError(f"{path} is damaged: its SHA-256 is not that of {_checksum_of(path).name}")


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
        with contextlib.suppress(OSError):  # a file system that takes nothing does not remove anything either
            temporary.unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {error.strerror}") from None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
