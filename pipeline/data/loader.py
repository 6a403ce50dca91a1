"""The loader: batches of a run, update by update, decoded in a thread ahead of the trainer.

In: samples in memory, the plan, the seed. Out: for each update the micro-batches of one worker, normalised and in
channels-last layout. What it yields is a function of the update alone: not of the batches decoded before or beside it,
and not of who decodes them.
"""

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pipeline.config.plan import Plan
from pipeline.config.schema import DataConfig
from pipeline.data import decode, order
from pipeline.data.decode import Decoder
from pipeline.data.epochs import Epochs
from pipeline.data.images import Images, Labelled
from pipeline.data.memory import SampleMemory, Source
from pipeline.errors import UserError

PIXELS_AT_ONCE = 2**17
"""Small images are drawn and decoded several updates at a time, up to so many pixels (227 images of 24 x 24): what a
call costs beside its images is as much as decoding thirty of them. Images of 224 x 224 are decoded update by update."""

NO_LABEL = -1
"""Label of a validation image that cannot be decoded: no class, so that the image counts as wrong."""


@dataclass(frozen=True)
class Batch:
    """A micro-batch."""

    images: Tensor
    """(n, 3, image_size, image_size) fp32, normalised, channels last."""
    labels: Tensor
    """(n,) int64."""
    replaced: int = 0
    """Images in it that stand in for samples that cannot be decoded."""


class TrainingLoader:
    """Yields the micro-batches of a worker from update `first_update` on, at least `prefetch_updates` ahead."""

    def __init__(
        self,
        source: Source,
        config: DataConfig,
        plan: Plan,
        *,
        seed: int,
        worker: int,
        first_update: int,
        last_update: int | None = None,
        decoder: Decoder | None = None,
        epochs: Epochs | None = None,
    ) -> None:
        """last_update: the loader ends before it; by default with the run. decoder: one that is shared with others; by
        default a new one. epochs: their order; by default that of one node."""
        self._source, self._epochs = source, epochs or Epochs(seed, plan)
        self._images = Images(
            source.index, config, decoder or decode.build(config), instead="another sample stands in for it"
        )
        self._config = config
        self._plan = plan
        self._seed = seed
        self._worker = worker
        self._ready: queue.Queue[list[Batch] | Exception | None] = queue.Queue(config.prefetch_updates)
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._work,
            args=(first_update, plan.updates if last_update is None else last_update),
            name="loader",
            daemon=True,
        )
        self._thread.start()

    def __iter__(self) -> Iterator[list[Batch]]:
        while (ready := self._ready.get()) is not None:
            if isinstance(ready, Exception):
                raise ready
            yield ready

    def close(self) -> None:
        """End the thread; what it has decoded ahead is dropped."""
        self._stopped.set()
        self._source.give_up()
        while self._thread.is_alive():
            try:
                self._ready.get(timeout=0.05)
            except queue.Empty:
                continue

    def _work(self, first_update: int, last_update: int) -> None:
        try:
            for micro_batches in islice(self._updates(first_update), last_update - first_update):
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
        slots = self._epochs.slots(epoch)
        mine = [order.worker_samples(update, self._worker, stage) for update in slots[first:]]
        self._memory = self._source.epoch(epoch)
        per_update = stage.micro_batches * stage.per_worker_batch
        at_once = max(1, PIXELS_AT_ONCE // (per_update * self._config.image_size**2))
        for start in range(0, len(mine), at_once):
            yield from self._read_updates(epoch, np.stack(mine[start : start + at_once]))

    def _read_updates(self, epoch: int, samples: NDArray[np.int64]) -> Iterator[list[Batch]]:
        """samples: (updates, micro_batches, per_worker_batch)."""
        flat = samples.ravel()
        read = self._read(epoch, flat)
        for place in read.bad:
            stand_in = self._stand_in(epoch, int(flat[place]))
            read.images[place], read.labels[place] = stand_in.images[0], stand_in.labels[0]
        updates, micro_batches, size = samples.shape
        replaced = np.bincount(np.array(read.bad, dtype=np.int64) // size, minlength=updates * micro_batches).tolist()
        parts = zip(read.images.split(size), read.labels.split(size), replaced, strict=True)
        batches = [Batch(*part) for part in parts]
        for first in range(0, len(batches), micro_batches):
            yield batches[first : first + micro_batches]

    def _read(self, epoch: int, samples: NDArray[np.int64]) -> Labelled:
        """Samples, shape (n,), as this epoch sees them."""
        widths, heights = self._images.index.width[samples], self._images.index.height[samples]
        windows = order.windows(self._seed, epoch, samples, widths, heights, self._config.window)
        mirrors = order.mirrors(self._seed, epoch, samples) if self._config.mirror else np.zeros(len(samples), bool)
        return self._images.read(self._memory, samples, windows, mirrors)

    def _stand_in(self, epoch: int, sample: int) -> Labelled:
        """What this epoch sees of the first of a sample's stand-ins that can be decoded.

        A function of (seed, epoch, sample): what was bad before plays no part, so a resumed run finds the same one.
        """
        candidates = order.stand_ins(sample, self._plan.samples)
        for candidate in candidates:
            read = self._read(epoch, np.array([candidate]))
            if not read.bad:
                return read
        raise UserError(
            f"none of the first {len(candidates):,} training samples in {self._images.index.folder} can be decoded, "
            "so none can stand in for a bad one; prepare the shards again"
        )


def validation_batches(
    memory: SampleMemory,
    config: DataConfig,
    *,
    worker: int,
    workers: int,
    batch: int,
    decoder: Decoder | None = None,
) -> Iterator[Batch]:
    """A worker's part of the validation images: over all workers every image exactly once.

    With data.on_bad_sample=replace a bad image is there too, under a label that no prediction meets: the accuracy stays
    a share of all images, and a damaged data set never looks better for it.
    """
    images = Images(memory.index, config, decoder or decode.build(config), instead="it counts as wrong")
    mine = np.arange(worker, len(memory.index), workers)
    for first in range(0, len(mine), batch):
        samples = mine[first : first + batch]
        widths, heights = memory.index.width[samples], memory.index.height[samples]
        unmirrored = np.zeros(len(samples), dtype=bool)
        read = images.read(memory, samples, order.central_windows(widths, heights, config.validation_crop), unmirrored)
        read.images[read.bad], read.labels[read.bad] = 0, NO_LABEL
        yield Batch(read.images, read.labels)
