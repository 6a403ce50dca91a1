"""Batch-norm statistics of a run whose workers each see their own batches.

A worker's running statistics are an exponential average over its own batches. Averaging is linear, so the mean over
workers may be taken at any update without changing what it will be later: workers average in place at agreed updates,
always before they validate. For the same reason k micro-batches on one worker give what k workers would have given, if
the k batches enter the average with equal weight; `use_micro_batch` sets the momentum that does so.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class BatchNormStatistics:
    """The running statistics of all batch-norm layers of `model`, seen as one flat vector.

    group: the process group to average over; `workers` is its size.
    last_batch: no moving average; the statistics are those of the last update's mini-batches (Akiba et al. 2017,
    1711.04325, who average them over the workers before they validate).
    """

    def __init__(
        self, model: nn.Module, group: dist.ProcessGroup | None, workers: int, *, last_batch: bool = False
    ) -> None:
        self._layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
        if last_batch:
            for layer in self._layers:
                layer.momentum = 1.0  # the average is what came last
        self._momenta = [0.1 if layer.momentum is None else layer.momentum for layer in self._layers]
        self._group = group
        self._workers = workers

    def use_micro_batch(self, index: int, count: int) -> None:
        """Set the momentum for micro-batch `index`, counted from 0, of `count`.

        With a_i = (m/k) / (1 - (k-i)*m/k) for i = 1 … k the update r <- (1-a_i)*r + a_i*b_i, done k times, gives
        (1-m)*r + (m/k)*sum(b_i): one step of momentum m towards the mean of the k batches.
        """
        if count == 1:
            return
        for layer, momentum in zip(self._layers, self._momenta, strict=True):
            share = momentum / count
            layer.momentum = share / (1 - (count - 1 - index) * share)

    def average(self) -> None:
        """Replace every worker's statistics by their mean over the workers: alike on all, to the bit."""
        if self._workers == 1 or not self._layers:
            return
        flat = self.flatten()
        dist.all_reduce(flat, group=self._group)
        self.restore(flat / self._workers)

    def flatten(self) -> Tensor:
        """A copy of all means and variances, shape (n,), fp32."""
        return torch.cat([buffer.flatten() for buffer in self._buffers()]) if self._layers else torch.zeros(0)

    def restore(self, flat: Tensor) -> None:
        """Put back what `flatten` gave."""
        buffers = self._buffers()
        for buffer, values in zip(buffers, flat.split([b.numel() for b in buffers]), strict=True):
            buffer.copy_(values.view_as(buffer))

    def _buffers(self) -> list[Tensor]:
        found = [buffer for layer in self._layers for buffer in (layer.running_mean, layer.running_var)]
        return [buffer for buffer in found if buffer is not None]
