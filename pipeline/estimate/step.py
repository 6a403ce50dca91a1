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
    backward_s = micro_batch_s * (1 - forward)
    free_s = 0.0  # when the network is free for the next bucket
    for bucket, one in zip(buckets, averaged, strict=True):
        free_s = max(free_s, end_s - backward_s * (1 - bucket.ready)) + one.time_s
    total_s = sum(one.time_s for one in averaged)
    return Step(end_s, total_s, max(0.0, free_s - end_s) if total_s else 0.0)
