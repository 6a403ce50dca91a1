"""The buckets in which DDP hands gradients over, and when in the backward pass each is ready. Torch-free.

The rule is torch's (`compute_bucket_assignment_by_size`): gradients arrive from the last layer to the first, and a
bucket is closed by the one that fills it to the cap, so it may be larger. `pipeline.step` names the cap, which makes
the first bucket as large as the others; DDP's own first bucket of 1 MiB is only where nothing is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.estimate.layers import Layer

BYTES_OF_FP32 = 4


@dataclass(frozen=True)
class Bucket:
    """A flat piece of the gradient."""

    elements: int
    ready: float
    """Share of the backward pass's multiplications that are done when its last gradient is there, 0 to 1."""


def buckets(layers: Sequence[Layer], cap_mb: float, first_mb: float | None = None) -> list[Bucket]:
    """The buckets of a network, in the order in which they are averaged.

    cap_mb: MiB of fp32 gradients at which a bucket is closed. first_mb: the same of the first; None: as the others.
    """
    total = sum(layer.backward_multiplications for layer in layers)
    caps = [(cap_mb if first_mb is None else first_mb) * 2**20, cap_mb * 2**20]
    found: list[Bucket] = []
    done, elements = 0, 0
    for layer in reversed(layers):
        done += layer.backward_multiplications
        for count in reversed(layer.parameters):
            elements += count
            if elements * BYTES_OF_FP32 >= caps[min(len(found), 1)]:
                found.append(Bucket(elements, done / total))
                elements = 0
    return [*found, Bucket(elements, 1.0)] if elements else found
