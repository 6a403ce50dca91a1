"""Checkpoints while a run trains: every worker hands in its part, the first one copies the state and writes it aside.

Training goes on while a thread writes: what an update costs is the copy. One is written at a time; the next waits.
"""

import threading
from collections import deque
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pipeline import checkpoint
from pipeline.data.epochs import Epochs
from pipeline.run_folder import RunFolder
from pipeline.step import Step
from pipeline.workers import Workers


class Saver:
    """The checkpoints of an attempt. Every worker makes the same calls in the same order."""

    def __init__(
        self,
        folder: RunFolder,
        step: Step,
        workers: Workers,
        epochs: Epochs,
        configuration: dict[str, str],
        *,
        keep: int,
    ) -> None:
        """configuration: `identity` of the run. keep: newest checkpoints to keep."""
        self._step, self._workers, self._epochs, self._configuration = step, workers, epochs, configuration
        self._writer = Writer(folder, keep)

    def save(self, update: int, *, averaged: bool) -> None:
        """Take the state after `update` updates. averaged: whether batch-norm statistics are alike on all workers.

        Raises UserError on the first worker where an earlier one could not be written.
        """
        self._workers.heartbeat.at("saving", update=update)
        own = self._step.batch_norm.flatten()
        gathered = None
        if not averaged and self._workers.world_size > 1:
            rows = [torch.empty_like(own, device="cpu") for _ in range(self._workers.world_size)]
            with self._workers.heartbeat.collective("gathering batch-norm statistics"):
                dist.all_gather(rows, own.cpu(), group=self._workers.control)
            gathered = torch.stack(rows)
        if self._workers.is_head:
            self._writer.start(self._state(update, gathered))

    def written(self) -> list[int]:
        """The updates whose checkpoints were completed since the last call. Raises UserError where one could not be."""
        return self._writer.take()

    def finish(self) -> None:
        """Wait until everything is written, on all workers: they may end then. Raises as `save` does."""
        self._writer.wait()
        with self._workers.heartbeat.collective("waiting for the checkpoint"):
            dist.barrier(group=self._workers.control)

    def _state(self, update: int, batch_norm: Tensor | None) -> checkpoint.State:
        """A copy in host memory. `model` in it always has averaged statistics, so that it can be used as it is."""
        own = self._step.batch_norm.flatten()
        if batch_norm is not None:
            self._step.batch_norm.restore(batch_norm.mean(0).to(own.device))
        model = on_host(self._step.model.state_dict())
        self._step.batch_norm.restore(own)
        return checkpoint.State(
            update=update,
            model=model,
            optimizer=on_host(self._step.optimizer.state_dict()),
            scaler=self._step.scaler.state_dict(),
            batch_norm=batch_norm,
            plan=checkpoint.describe(self._epochs),
            configuration=self._configuration,
        )


class Writer:
    """Writes checkpoints, one at a time, in a thread."""

    def __init__(self, folder: RunFolder, keep: int) -> None:
        self._folder, self._keep = folder, keep
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self._written: deque[int] = deque()  # safe between two threads

    def start(self, state: checkpoint.State) -> None:
        """Write a state that nobody changes any more; waits for the one before. Raises what that one met."""
        self.wait()
        self._thread = threading.Thread(target=self._write, args=[state], name="checkpoint")
        self._thread.start()

    def take(self) -> list[int]:
        """What was completed since the last call. Raises what the newest one met."""
        if self._error is not None:
            raise self._error
        return [self._written.popleft() for _ in range(len(self._written))]

    def wait(self) -> None:
        """Until nothing is under way. Raises what the newest one met."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error

    def _write(self, state: checkpoint.State) -> None:
        try:
            checkpoint.save(self._folder, state, keep=self._keep)
            checkpoint.save_model(self._folder, state.model)
        except Exception as error:
            self._error = error
            return
        self._written.append(state.update)


def on_host(state: Any) -> Any:
    """The same nested state with a copy of each tensor in host memory."""
    if isinstance(state, Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: on_host(value) for key, value in state.items()}
    return [on_host(value) for value in state] if isinstance(state, list) else state
