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

    def batch(self, samples: NDArray[np.int64], windows: NDArray[np.int64], mirrors: NDArray[np.bool_] | None) -> Batch:
        """samples (n,), windows (n, 4), mirrors (n,) or None. Raises UserError that names a sample it cannot decode."""
        pixels = torch.empty(len(samples), 3, self._size, self._size, dtype=torch.uint8)
        for place, sample in enumerate(samples.tolist()):
            mirror = mirrors is not None and bool(mirrors[place])
            try:
                pixels[place] = decode(self._memory.image(sample), windows[place], mirror=mirror, size=self._size)
            except UndecodableError as error:
                raise UserError(f"sample {self._memory.index.where(sample)} cannot be decoded: {error}") from None
        images = pixels.to(torch.float32, memory_format=torch.channels_last)
        images.sub_(self._mean).div_(self._std)
        return Batch(images, torch.from_numpy(self._memory.index.label[samples]))


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
        known, permutation = -1, np.empty(0, dtype=np.int64)
        for update in range(first_update, self._plan.updates):
            epoch, inside = self._plan.position(update)
            if epoch != known:
                known, permutation = epoch, order.permutation(self._seed, epoch, self._plan.samples)
            stage = self._plan.stage_at(epoch)
            samples = order.update_samples(permutation, inside, stage)
            yield [self._training_batch(epoch, part) for part in order.worker_samples(samples, self._worker, stage)]

    def _training_batch(self, epoch: int, samples: NDArray[np.int64]) -> Batch:
        widths, heights = self._index.width[samples], self._index.height[samples]
        windows = order.windows(self._seed, epoch, samples, widths, heights, self._config.window)
        mirrors = order.mirrors(self._seed, epoch, samples) if self._config.mirror else None
        return self._decoder.batch(samples, windows, mirrors)


def validation_batches(
    memory: SampleMemory, config: DataConfig, *, worker: int, workers: int, batch: int
) -> Iterator[Batch]:
    """A worker's part of the validation images: over all workers every image exactly once."""
    decoder = Decoder(memory, config)
    mine = np.arange(worker, len(memory.index), workers)
    for first in range(0, len(mine), batch):
        samples = mine[first : first + batch]
        widths, heights = memory.index.width[samples], memory.index.height[samples]
        yield decoder.batch(samples, order.central_windows(widths, heights, config.validation_crop), None)
