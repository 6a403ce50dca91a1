"""Samples in a node's memory: what the loader reads."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.data.shards import Index

ABSENT = -1


@dataclass(frozen=True)
class SampleMemory:
    """Encoded images in memory. Sample i of the split is `image(i)`, for the samples that are there."""

    index: Index
    _bytes: NDArray[np.uint8]
    _start: NDArray[np.int64]
    """Of every sample of the index; ABSENT for those that are not there."""

    def image(self, sample: int) -> NDArray[np.uint8]:
        """The encoded bytes of a sample, shape (size,), without a copy."""
        start = self._start[sample]
        assert start != ABSENT, f"sample {sample} is on another node"
        return self._bytes[start : start + self.index.size[sample]]

    def images(self, samples: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
        """`image` of each of some samples, shape (samples,)."""
        starts = self._start[samples]
        assert (starts != ABSENT).all(), "a sample is on another node"
        ends = starts + self.index.size[samples]
        return [self._bytes[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def epoch(self, epoch: int) -> "SampleMemory":  # noqa: ARG002 - of a source that is the same in every epoch
        return self

    def check(self) -> None:
        """As Source's; there is nothing that could fail."""

    def give_up(self) -> None:
        """As Source's; nobody waits."""

    def close(self) -> None:
        """As Source's; there is nothing to end."""


class Source(Protocol):
    """Training samples, epoch by epoch."""

    @property
    def index(self) -> Index: ...

    def epoch(self, epoch: int) -> SampleMemory:
        """The samples that this node's workers need in an epoch; waits for them. What an earlier epoch got must not be
        read any more. Epochs are asked for in order."""
        ...

    def check(self) -> None:
        """Raise RuntimeError where what runs in the background has failed; costs next to nothing."""
        ...

    def give_up(self) -> None:
        """Let whoever waits in `epoch` come back with ExchangeError."""
        ...

    def close(self) -> None:
        """End what runs in the background; every worker calls it, when no epoch is read any more."""
        ...
