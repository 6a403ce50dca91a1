"""What every all-reduce of this project promises.

An all-reduce is a callable. It averages one flat bucket over all workers, in place, and returns a future of the bucket.

- It pads to what its grid needs, and never reads or writes past the bucket.
- It scales in fp32 before the cast to the wire's type, by the length of its first ring, and again between phases:
  dividing by all workers at once would lose small fp16 gradients to zero, not dividing would overflow.
- It works for any grid, any size (zero and one too), fp32, fp16 and bf16.
- It leaves every worker with bit-identical bytes.
- Its communicators are used in one order on every worker.
- Several buckets may be in flight; they are averaged in the order they were handed over.
"""

from typing import Protocol

import torch
from torch import Tensor


class AllReduce(Protocol):
    """Averages flat buckets over all workers."""

    def __call__(self, bucket: Tensor, *, last: bool = True) -> torch.futures.Future[Tensor]:
        """Average `bucket`, shape (n,), in place.

        last: whether no further bucket of this update follows; only used to measure the communication that the
        backward pass does not hide.
        """
        ...

    def exposed_s(self) -> float:
        """Seconds since the last call in which workers waited for averages and for nothing else."""
        ...

    def close(self) -> None:
        """End threads; the object is not used again."""
        ...
