"""What an all-reduce takes for buckets of several sizes, from one look at the network.

Everything that a phase asks of the network is latency, or in proportion to the bytes; so an estimate for one size gives
all sizes and all chunks of them at once. Torch-free; numpy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.estimate.algorithms import COLORS, SMALLEST_CHUNK_BYTES, phases_of
from pipeline.estimate.network import Floats, Wiring

UNIT_BYTES = 1e6


@dataclass(frozen=True)
class AllReducePlan:
    """Which all-reduce, as the configuration names it."""

    name: str = "torus"
    colors: int = COLORS
    """Trees of `multicolor`."""
    ring_from_bytes: int = 1 << 20
    """`hybrid`: the bucket from which it takes the ring."""
    chunk_bytes: int | None = None
    """None: the model's own best."""


@dataclass(frozen=True)
class Averaged:
    """One bucket's all-reduce."""

    size_bytes: float
    time_s: float
    chunk_bytes: int


class Pace:
    """An all-reduce on a grid, in numbers: latencies, and seconds a byte."""

    def __init__(self, name: str, grid: tuple[int, int], wiring: Wiring, colors: int = COLORS) -> None:
        found = phases_of(name, UNIT_BYTES, grid, wiring, colors=colors)
        phases = found.phases
        self.latency_s = np.array([phase.load.latency_s for phase in phases])
        self.host_s = np.array([phase.load.host_s for phase in phases])
        self.transfer_s = np.array([phase.load.transfer_s for phase in phases]) / UNIT_BYTES
        """Seconds a byte, by phase."""
        self.busiest_s = np.array([phase.busiest_s for phase in phases]) / UNIT_BYTES
        """Seconds a byte of each phase's busiest link."""
        self.streams = np.array([phase.streams for phase in phases], dtype=bool)
        self.all_busiest_s = found.busiest_s / UNIT_BYTES if phases else 0.0
        """Seconds a byte of the link that is busiest over all phases."""

    def times_s(self, sizes_bytes: Floats, chunks: Floats) -> Floats:
        """`Estimate.pipelined_s` of messages in equal chunks; both arrays, and the result, have one shape."""
        if not self.latency_s.size:
            return np.zeros_like(sizes_bytes, dtype=np.float64)
        chunk = (np.asarray(sizes_bytes) / chunks)[..., None]
        first = (self.latency_s + self.transfer_s * chunk).sum(-1)
        ring, tree = self.latency_s + self.transfer_s * chunk, self.host_s + self.busiest_s * chunk
        pace = np.where(self.streams, tree, ring).max(-1)
        return first + (chunks - 1) * np.maximum(pace, self.all_busiest_s * chunk[..., 0])

    def best(self, size_bytes: float) -> Averaged:
        """In the fastest chunks; `best_chunk_bytes`, which a run takes, is within 1 % of it and has fewer messages.

        The fastest, since more bandwidth is then never slower.
        """
        count = max(0, int(np.ceil(np.log2(max(size_bytes, 1) / SMALLEST_CHUNK_BYTES)))) + 1
        sizes = SMALLEST_CHUNK_BYTES * 2.0 ** np.arange(count)
        chunks = np.maximum(1, np.ceil(size_bytes / sizes))
        times = self.times_s(np.full(count, float(size_bytes)), chunks)
        place = int(np.flatnonzero(times == times.min())[-1])
        return Averaged(size_bytes, float(times[place]), int(sizes[place]))

    def in_chunks(self, size_bytes: float, chunk_bytes: int) -> Averaged:
        chunks = np.array([max(1.0, np.ceil(size_bytes / chunk_bytes))])
        return Averaged(size_bytes, float(self.times_s(np.array([size_bytes]), chunks)[0]), chunk_bytes)


def average(plan: AllReducePlan, sizes_bytes: Sequence[float], grid: tuple[int, int], wiring: Wiring) -> list[Averaged]:
    """What each of the buckets takes by itself, in their order.

    sizes_bytes: as they travel. Raises ValueError for an all-reduce that there is not and a grid that is not the
    workers'.
    """
    paces: dict[str, Pace] = {}
    found = []
    for size_bytes in sizes_bytes:
        name = plan.name
        if name == "hybrid":
            name = "ring" if size_bytes >= plan.ring_from_bytes else "hierarchical"
        if name not in paces:
            paces[name] = Pace(name, grid, wiring, plan.colors)
        whole = name == "native"  # the backend cuts by itself
        chunk_bytes = max(1, int(size_bytes)) if whole else plan.chunk_bytes
        pace = paces[name]
        found.append(pace.best(size_bytes) if chunk_bytes is None else pace.in_chunks(size_bytes, chunk_bytes))
    return found
