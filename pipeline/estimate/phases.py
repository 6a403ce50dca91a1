"""Phases of an all-reduce, and what a message takes that goes through them in chunks, one behind another.

The engine gives each phase a thread, so that chunk i+1 is in one phase while chunk i is in the next. What chunks in
different phases share is the links.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.estimate.network import Floats, Load, Wiring


@dataclass(frozen=True, eq=False)
class Phase:
    """One phase of an all-reduce, for the whole message."""

    name: str
    steps: int
    """Messages that follow each other on the longest way through the phase."""
    load: Load
    """What all steps together ask of the network."""
    busiest_s: float
    """What the phase's busiest link needs for all its bytes."""
    streams: bool
    """Whether a worker is free for the next chunk as soon as it has passed this one on, as in a tree; in a ring each
    worker takes part until the end."""

    @property
    def time_s(self) -> float:
        """From the first byte sent to the last one received."""
        return self.load.time_s

    def interval_s(self, chunks: int) -> float:
        """What lies between two chunks of 1/chunks of the message at the phase's slowest worker or link."""
        if self.streams:
            return self.load.host_s + self.busiest_s / chunks
        return self.load.latency_s + self.load.transfer_s / chunks


@dataclass(frozen=True, eq=False)
class Estimate:
    """The phases of an all-reduce, in order; none where nothing is sent."""

    wiring: Wiring
    phases: tuple[Phase, ...]

    @property
    def time_s(self) -> float:
        """The phases one after another, without pipelining."""
        return sum(phase.time_s for phase in self.phases)

    @cached_property
    def link_bytes(self) -> Floats:
        """Bytes on each link over all phases, shape (links,), in the order of `Wiring.rates_bytes_per_s`."""
        return sum((phase.load.link_bytes for phase in self.phases), np.zeros_like(self.wiring.rates_bytes_per_s))

    @cached_property
    def busiest_s(self) -> float:
        """What the busiest link needs for its bytes of all phases: no number of chunks is faster than that."""
        return self.wiring.busiest_s(self.link_bytes)

    def pipelined_s(self, chunks: int) -> float:
        """The message in `chunks` equal chunks: the first goes through all phases, the others follow behind it.

        They follow at the pace of the slowest phase, or of the busiest link where that is slower: chunks in different
        phases share it. Raises ValueError for less than one chunk.
        """
        if chunks < 1:
            raise ValueError(f"a message is at least one chunk, not {chunks}")
        first = sum(phase.load.latency_s + phase.load.transfer_s / chunks for phase in self.phases)
        pace = max((phase.interval_s(chunks) for phase in self.phases), default=0.0)
        return first + (chunks - 1) * max(pace, self.busiest_s / chunks)
