"""What every all-reduce of this project promises.

An all-reduce is a callable. It averages one flat bucket over all workers, in place, and returns a future of the bucket.

- It never reads or writes past the bucket; what its grid cannot divide is padded or cut unevenly.
- Workers pass on means, never sums (means.py): dividing by all workers at once would lose small fp16 gradients to zero,
  not dividing would overflow. Collectives of a backend add; they divide by the length of each ring before it.
- It works for any grid, any size (zero and one too), fp32, fp16 and bf16. NaN stays NaN and Inf does not become finite.
- It leaves every worker with bit-identical bytes.
- Its communicators are used in one order on every worker.
- Several buckets may be in flight; they are averaged in the order they were handed over.
- When a worker dies or stops, the others get a CommunicationError that names the phase, within the configured time-out.
"""

import re
import time
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Activity:
    """A phase that is running, or the one that failed."""

    name: str
    since_s: float
    """When it began, on time.monotonic's clock."""

    def __str__(self) -> str:
        return f"{self.name} for {self.seconds():.0f} s"

    def seconds(self) -> float:
        """For how long it has been running."""
        return time.monotonic() - self.since_s


class CommunicationError(RuntimeError):
    """What workers could not finish together: names the phase, and what the backend said of it."""

    @classmethod
    def in_phase(cls, phase: str, error: Exception) -> "CommunicationError":
        """The error of a phase, in one line."""
        words = (str(error).splitlines() or [""])[0] or type(error).__name__
        words = re.sub(r"^\[/[^]]*\] ", "", words)  # the backend's source file and line
        return cls(f"{phase}: {words.split('. ')[0]}")  # its advice follows


class AllReduce(Protocol):
    """Averages flat buckets over all workers."""

    chunk_bytes: int
    """The largest chunk, in bytes on the wire; may be changed between buckets, on all workers alike."""

    def __call__(self, bucket: Tensor, *, last: bool = True) -> torch.futures.Future[Tensor]:
        """Average `bucket`, shape (n,), in place.

        last: whether no further bucket of this update follows; only used to measure the communication that the
        backward pass does not hide.
        """
        ...

    def take_times(self) -> tuple[float, float]:
        """Seconds since the last call: (exposed, total). Exposed: after the last bucket of an update was handed over;
        total: while any was under way."""
        ...

    @property
    def failure(self) -> CommunicationError | None:
        """Why this all-reduce can average nothing any more."""
        ...

    def doing(self) -> str:
        """The phase that has been running for the longest or that failed, in words; empty while nothing runs."""
        ...

    def running_s(self) -> float:
        """For how long that phase has been running; 0 while nothing runs. Any thread may ask for either."""
        ...

    def close(self) -> None:
        """End threads; the object is not used again."""
        ...
