"""One update: micro-batches forward and backward, gradients averaged over the workers, the optimiser's step.

Holds everything that an update changes: the network, the optimiser, the loss scale.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pipeline import models, precision
from pipeline.allreduce import hook
from pipeline.allreduce.averager import Averager
from pipeline.batch_norm import BatchNormStatistics
from pipeline.config import Config
from pipeline.data.loader import Batch
from pipeline.optim import build as optimisers
from pipeline.optim.schedule import Position
from pipeline.profiler import phase
from pipeline.workers import Workers


@dataclass(frozen=True)
class Outcome:
    """What one update gave on one worker. Tensors stay on the device until somebody reads them."""

    loss: Tensor
    """Mean loss over this worker's images, shape ()."""
    correct: Tensor
    """Images whose label came first, shape ()."""
    skipped: bool
    """Whether averaged gradients overflowed, so that no worker changed its weights."""
    loss_scale: float


class Step:
    """The training state of one worker, and how one update changes it."""

    def __init__(self, config: Config, workers: Workers, all_reduce: str | None = None) -> None:
        """all_reduce: what `allreduce=auto` took when the run began; None: it measures."""
        self._config = config
        self._device = workers.device
        torch.manual_seed(config.seed)
        model = models.build(config.model)
        self.model: nn.Module = model.to(workers.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = optimisers.build(config.optim, self.model)
        self.scaler = precision.loss_scaler(config.precision, workers.device.type)
        last_batch = config.recipe.batch_norm == "last_batch"
        self.batch_norm = BatchNormStatistics(self.model, workers.world, workers.world_size, last_batch=last_batch)
        with workers.heartbeat.collective("connecting the workers"):
            self.all_reduce = Averager(config.allreduce, config.site.network, workers.communicators, workers.device)
        workers.heartbeat.follow(self.all_reduce)
        workers.heartbeat.at("preparing the model")
        with workers.heartbeat.collective("comparing the workers' models"):
            self._parallel = DistributedDataParallel(
                self.model,
                process_group=workers.world,
                forward_sync_buffers=False,
                bucket_cap_mb=config.allreduce.bucket_mb,
                gradient_as_bucket_view=True,
            )
        hook.register(self._parallel, self.all_reduce)
        self._loss = nn.CrossEntropyLoss(label_smoothing=config.recipe.label_smoothing)
        self._fix_buckets()
        with workers.heartbeat.collective("measuring all-reduces"):
            self.all_reduce.settle(self.all_reduce.take_sizes(), workers.control, all_reduce)

    def update(self, micro_batches: Sequence[Batch], position: Position) -> Outcome:
        """Do one update at `position` of the schedule."""
        optimisers.place(self.optimizer, position)
        count = len(micro_batches)
        losses, corrects = [], []
        for index, batch in enumerate(micro_batches):
            self.batch_norm.use_micro_batch(index, count)
            loss, correct = self._backward(batch, count, averaging=index == count - 1)
            losses.append(loss)
            corrects.append(correct)
        scale = self.scaler.get_scale()
        with phase("optimiser"):
            self.scaler.unscale_(self.optimizer)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
        skipped = self.scaler.get_scale() < scale
        return Outcome(torch.stack(losses).mean(), torch.stack(corrects).sum(), skipped, scale)

    def _backward(self, batch: Batch, count: int, *, averaging: bool) -> tuple[Tensor, Tensor]:
        """Add one micro-batch's gradient; with the last one DDP averages the sum over the workers."""
        images = batch.images.to(self._device, non_blocking=True)
        labels = batch.labels.to(self._device, non_blocking=True)
        with nullcontext() if averaging else self._parallel.no_sync():
            with phase("forward"), precision.autocast(self._config.precision, self._device.type):
                logits = self._parallel(images)
                loss = self._loss(logits, labels)
            with phase("backward"):
                self._differentiate(loss / count if count > 1 else loss)
        return loss.detach(), (logits.detach().argmax(1) == labels).sum()

    def _differentiate(self, loss: Tensor) -> None:
        """The backward pass; raises CommunicationError where gradients could not be averaged meanwhile."""
        try:
            self.scaler.scale(loss).backward()
        except RuntimeError as error:  # DDP takes the error for a tensor, and complains of its type
            raise self.all_reduce.failure or error from None

    def _fix_buckets(self) -> None:
        """Let DDP settle its bucket layout before update 0, by backward passes that leave nothing behind.

        DDP rebuilds its buckets after the first backward pass, in the order in which gradients arrived; sums in another
        order differ in their last bits, so a resumed run would not continue to the bit.
        """
        buffers = [buffer.clone() for buffer in self.model.buffers()]
        size = self._config.data.image_size
        images = torch.zeros(2, 3, size, size, device=self._device).contiguous(memory_format=torch.channels_last)
        labels = torch.zeros(2, dtype=torch.int64, device=self._device)
        for _ in range(2):  # the second one's buckets are the run's
            self.all_reduce.take_sizes()
            self._backward(Batch(images, labels), 1, averaging=True)
            self.optimizer.zero_grad()
        with torch.no_grad():
            for buffer, before in zip(self.model.buffers(), buffers, strict=True):
                buffer.copy_(before)
