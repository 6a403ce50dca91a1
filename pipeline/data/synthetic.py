"""Synthetic batches: noise in the shape of a run's images, made once. No file is read, nothing is decoded or copied.

In: the plan, the seed. Out: what the loader yields, the same micro-batch again and again while the stage lasts.
"""

from collections.abc import Iterator

import numpy as np
import torch

from pipeline.config.plan import Plan, Stage
from pipeline.config.schema import Config
from pipeline.data.loader import Batch


class SyntheticLoader:
    """Yields the micro-batches of a worker from update `first_update` on, on its own device."""

    def __init__(self, config: Config, plan: Plan, *, worker: int, first_update: int, device: torch.device) -> None:
        self._config, self._plan, self._worker = config, plan, worker
        self._first_update, self._device = first_update, device

    def __iter__(self) -> Iterator[list[Batch]]:
        made: dict[int, Batch] = {}
        for update in range(self._first_update, self._plan.updates):
            stage = self._plan.stage_at(self._plan.position(update)[0])
            if stage.per_worker_batch not in made:
                made = {stage.per_worker_batch: self._make(stage)}
            yield [made[stage.per_worker_batch]] * stage.micro_batches

    def close(self) -> None:
        """As TrainingLoader's; there is nothing to end."""

    def _make(self, stage: Stage) -> Batch:
        """A micro-batch, the same for the same seed and worker."""
        random = np.random.default_rng((self._config.seed, self._worker))
        size, count = self._config.data.image_size, stage.per_worker_batch
        images = torch.from_numpy(random.standard_normal((count, 3, size, size), dtype=np.float32))
        labels = torch.from_numpy(random.integers(self._config.model.classes, size=count))
        return Batch(images.contiguous(memory_format=torch.channels_last).to(self._device), labels.to(self._device))
