"""Checkpoints are written aside: what is written is what was there when it was asked for, and a fault is not lost."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pipeline import saving
from pipeline.checkpoint import State
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder
from pipeline.saving import Writer, on_host


def state(update: int) -> State:
    return State(update, {"weight": torch.full((2,), float(update))}, {}, {}, None, {})


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run")


def test_training_goes_on_while_one_is_written_and_the_next_waits_for_it(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, order = threading.Event(), []

    def save(_: RunFolder, state: State, **__: int) -> None:
        may_write.wait(60)
        order.append(state.update)

    monkeypatch.setattr(saving.checkpoint, "save", save)
    writer = Writer(folder, keep=2)
    writer.start(state(10))
    assert writer.take() == []  # it came back before anything was written
    threading.Timer(0.05, may_write.set).start()
    writer.start(state(20))
    assert order[0] == 10
    writer.wait()
    assert order == [10, 20]
    assert writer.take() == [10, 20]
    assert writer.take() == []


def test_what_is_written_is_there(folder: RunFolder) -> None:
    writer = Writer(folder, keep=2)
    for update in (10, 20, 30):
        writer.start(state(update))
    writer.wait()
    assert folder.saved_updates() == [20, 30]
    assert torch.equal(torch.load(folder.model, weights_only=True)["weight"], torch.full((2,), 30.0))


@pytest.mark.parametrize("asked", [Writer.take, Writer.wait, lambda writer: writer.start(state(20))])
def test_a_disk_that_is_full_is_told_by_whatever_is_asked_next(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, asked: Callable[[Writer], object]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise UserError("cannot be written: No space left on device")

    monkeypatch.setattr(saving.checkpoint, "save", full)
    writer = Writer(folder, keep=2)
    writer.start(state(10))
    writer._thread.join()  # type: ignore[union-attr]
    with pytest.raises(UserError, match="No space left on device"):
        asked(writer)


def test_a_copy_does_not_change_with_what_it_was_made_of() -> None:
    momentum: Tensor = torch.zeros(3)
    copied = on_host(
        {"state": {0: {"velocity": momentum}}, "groups": [{"params": [momentum], "lr": 0.1}], "none": None}
    )
    momentum += 1
    assert copied["state"][0]["velocity"].tolist() == [0.0, 0.0, 0.0]
    assert copied["groups"][0]["params"][0].tolist() == [0.0, 0.0, 0.0]
    assert copied["groups"][0]["lr"] == 0.1
    assert copied["none"] is None
