"""The loader: batches of a run, update by update, decoded in a thread ahead of the trainer.

In: samples in memory, the plan, the seed. Out: for each update the micro-batches of one worker, normalised and in
channels-last layout. What it yields is a function of the update alone.
"""

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.config.plan import Plan
from pipeline.config.schema import DataConfig
from pipeline.data import order
from pipeline.data.decode_torchvision import UndecodableError, decode
from pipeline.data.memory import SampleMemory
from pipeline.errors import UserError

SAMPLES_AT_ONCE = 4096
"""Samples whose windows are drawn in one call: drawing them batch by batch costs as much as decoding a few images."""


@dataclass(frozen=True)
class Batch:
    """A micro-batch."""

    images: Tensor
    """(n, 3, image_size, image_size) fp32, normalised, channels last."""
    labels: Tensor
    """(n,) int64."""


class Decoder:
    """Turns sample numbers and windows into a batch."""

    def __init__(self, memory: SampleMemory, config: DataConfig) -> None:
        self._memory = memory
        self._size = config.image_size
        self._mean = torch.tensor(config.mean).view(1, 3, 1, 1)
        self._std = torch.tensor(config.std).view(1, 3, 1, 1)

    def batch(self, samples: NDArray[np.int64], windows: NDArray[np.int64], mirrors: NDArray[np.bool_]) -> Batch:
        """samples (n,), windows (n, 4), mirrors (n,). Raises UserError that names a sample it cannot decode."""
        decoded = [
            self._decode(sample, window, mirror)
            for sample, window, mirror in zip(samples.tolist(), windows.tolist(), mirrors.tolist(), strict=True)
        ]
        images = torch.cat(decoded).to(torch.float32, memory_format=torch.channels_last)
        images.sub_(self._mean).div_(self._std)
        return Batch(images, torch.from_numpy(self._memory.index.label[samples]))

    def _decode(self, sample: int, window: list[int], mirror: bool) -> Tensor:
        try:
            return decode(self._memory.image(sample), window, mirror=mirror, size=self._size)
        except UndecodableError as error:
            raise UserError(f"sample {self._memory.index.where(sample)} cannot be decoded: {error}") from None


class TrainingLoader:
    """Yields the micro-batches of a worker from update `first_update` on, `prefetch_updates` ahead."""

    def __init__(
        self, memory: SampleMemory, config: DataConfig, plan: Plan, *, seed: int, worker: int, first_update: int
    ) -> None:
        self._decoder = Decoder(memory, config)
        self._index = memory.index
        self._config = config
        self._plan = plan
        self._seed = seed
        self._worker = worker
        self._ready: queue.Queue[list[Batch] | Exception | None] = queue.Queue(config.prefetch_updates)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(first_update,), name="loader", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[list[Batch]]:
        while (ready := self._ready.get()) is not None:
            if isinstance(ready, Exception):
                raise ready
            yield ready

    def close(self) -> None:
        """End the thread; what it has decoded ahead is dropped."""
        self._stopped.set()
        while self._thread.is_alive():
            try:
                self._ready.get(timeout=0.05)
            except queue.Empty:
                continue

    def _work(self, first_update: int) -> None:
        try:
            for micro_batches in self._updates(first_update):
                self._ready.put(micro_batches)
                if self._stopped.is_set():
                    return
            self._ready.put(None)
        except Exception as error:
            self._ready.put(error)

    def _updates(self, first_update: int) -> Iterator[list[Batch]]:
        epoch, inside = self._plan.position(first_update)
        for number in range(epoch, self._plan.epochs):
            yield from self._epoch(number, inside if number == epoch else 0)

    def _epoch(self, epoch: int, first: int) -> Iterator[list[Batch]]:
        """The updates of an epoch from its update `first` on."""
        stage = self._plan.stage_at(epoch)
        permutation = order.permutation(self._seed, epoch, self._plan.samples)
        mine = [
            order.worker_samples(order.update_samples(permutation, update, stage), self._worker, stage)
            for update in range(first, stage.updates_per_epoch)
        ]
        at_once = max(1, SAMPLES_AT_ONCE // (stage.micro_batches * stage.per_worker_batch))
        for start in range(0, len(mine), at_once):
            yield from self._decode_updates(epoch, np.stack(mine[start : start + at_once]))

    def _decode_updates(self, epoch: int, samples: NDArray[np.int64]) -> Iterator[list[Batch]]:
        """samples: (updates, micro_batches, per_worker_batch)."""
        flat = samples.ravel()
        widths, heights = self._index.width[flat], self._index.height[flat]
        windows = order.windows(self._seed, epoch, flat, widths, heights, self._config.window)
        mirrors = order.mirrors(self._seed, epoch, flat) if self._config.mirror else np.zeros(len(flat), dtype=bool)
        of_updates = zip(samples, windows.reshape(*samples.shape, 4), mirrors.reshape(samples.shape), strict=True)
        for parts in of_updates:
            yield [self._decoder.batch(*part) for part in zip(*parts, strict=True)]


def validation_batches(
    memory: SampleMemory, config: DataConfig, *, worker: int, workers: int, batch: int
) -> Iterator[Batch]:
    """A worker's part of the validation images: over all workers every image exactly once."""
    decoder = Decoder(memory, config)
    mine = np.arange(worker, len(memory.index), workers)
    for first in range(0, len(mine), batch):
        samples = mine[first : first + batch]
        widths, heights = memory.index.width[samples], memory.index.height[samples]
        unmirrored = np.zeros(len(samples), dtype=bool)
        yield decoder.batch(samples, order.central_windows(widths, heights, config.validation_crop), unmirrored)
