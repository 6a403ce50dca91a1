"""What one update takes: micro-batches computed, gradients averaged bucket by bucket, with the backward pass or after.

Two figures bound it. Without overlap averaging begins when the backward pass has ended. With full overlap a bucket's
averaging begins when its last gradient is there and the bucket before it is averaged, and slows no computing. Pure
functions; torch-free.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.estimate.averaging import Averaged
from pipeline.estimate.buckets import Bucket
from pipeline.estimate.layers import Layer


@dataclass(frozen=True)
class Step:
    """One update of a worker."""

    compute_s: float
    """All micro-batches."""
    averaging_s: float
    """All buckets, one after another."""
    exposed_s: float
    """What of the averaging is left when the last backward pass has ended, with full overlap."""

    @property
    def no_overlap_s(self) -> float:
        return self.compute_s + self.averaging_s

    @property
    def full_overlap_s(self) -> float:
        return self.compute_s + self.exposed_s


def forward_share(layers: Sequence[Layer]) -> float:
    """Share of the forward pass in forward and backward, by multiplications."""
    forward = sum(layer.multiplications for layer in layers)
    return forward / (forward + sum(layer.backward_multiplications for layer in layers))


def step(
    micro_batch_s: float, micro_batches: int, forward: float, buckets: Sequence[Bucket], averaged: Sequence[Averaged]
) -> Step:
    """One update.

    micro_batch_s: computing of one micro-batch. forward: `forward_share`. averaged: of each of the buckets.
    Gradients are averaged with the last micro-batch's backward pass, which is when the buckets are ready.
    """
    end_s = micro_batch_s * micro_batches
    spans_s = spans(micro_batch_s, micro_batches, forward, buckets, averaged)
    total_s = sum(one.time_s for one in averaged)
    return Step(end_s, total_s, max(0.0, spans_s[-1][1] - end_s) if total_s else 0.0)


def spans(
    micro_batch_s: float, micro_batches: int, forward: float, buckets: Sequence[Bucket], averaged: Sequence[Averaged]
) -> list[tuple[float, float]]:
    """(ready, done) of each bucket in an update with full overlap, seconds from its begin. Arguments as `step`'s."""
    end_s = micro_batch_s * micro_batches
    backward_s = micro_batch_s * (1 - forward)
    found: list[tuple[float, float]] = []
    for bucket, one in zip(buckets, averaged, strict=True):
        ready_s = end_s - backward_s * (1 - bucket.ready)
        free_s = found[-1][1] if found else 0.0  # when the network is free for this bucket
        found.append((ready_s, max(free_s, ready_s) + one.time_s))
    return found
