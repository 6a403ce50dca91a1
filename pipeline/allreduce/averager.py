"""The run's all-reduce from its configuration: which algorithm, in which chunks, on what; `auto` measures and agrees.

An `Averager` is what DDP's hook calls. It notes the sizes of the buckets, so that the throw-away backward pass before
update 0 tells what the run's buckets are.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.contract import AllReduce, CommunicationError
from pipeline.allreduce.hook import WIRES, Options, build
from pipeline.allreduce.measure import seconds
from pipeline.config.schema import AllReduceConfig
from pipeline.config.site import NetworkConfig
from pipeline.estimate.algorithms import best_chunk_bytes
from pipeline.estimate.placement import as_network, warning

AUTO = "auto"
MEASURE_S = 2.0
"""About how long `auto` measures, all candidates together."""


@dataclass(frozen=True)
class Measured:
    """What a candidate took for all buckets of an update."""

    name: str
    median_s: float
    chunk_bytes: int


class Averager:
    """The all-reduce of a run on this worker. Every worker makes the same calls in the same order."""

    def __init__(
        self, config: AllReduceConfig, network: NetworkConfig, communicators: Communicators, device: torch.device
    ) -> None:
        self._config, self._network = config, network
        self._communicators, self._device = communicators, device
        self._own = communicators.fresh()
        self.name = "native" if config.name == AUTO else config.name
        self.measured: tuple[Measured, ...] = ()
        """What `auto` measured, quickest first."""
        self._build()
        self._sizes: list[int] | None = []
        """Of the buckets since they were last taken; None once they are settled: a run has millions."""

    def __call__(self, bucket: Tensor, *, last: bool = True) -> torch.futures.Future[Tensor]:
        if self._sizes is not None:
            self._sizes.append(bucket.numel())
        return self._all_reduce(bucket, last=last)

    def take_sizes(self) -> list[int]:
        """Elements of every bucket since the last call, until `settle`."""
        if self._sizes is None:
            return []
        sizes, self._sizes = self._sizes, []
        return sizes

    def settle(self, sizes: Sequence[int], group: dist.ProcessGroup, chosen: str | None) -> None:
        """Fit the algorithm and its chunks to the run's buckets, before the first update.

        sizes: elements of every bucket. group: all workers. chosen: what `auto` took when the run began; None: measure.
        """
        self._settled, self._sizes = list(sizes), None
        if self._config.name == AUTO:
            if chosen is None:
                self.measured = self._measure(sizes, group)
            self._switch(chosen or self.measured[0].name)
        self._all_reduce.chunk_bytes = self.options(self.name, max(sizes, default=0)).chunk_bytes
        self.take_times()

    @property
    def chunk_bytes(self) -> int:
        """The largest chunk, in bytes on the wire."""
        return self._all_reduce.chunk_bytes

    def description(self) -> dict[str, object]:
        """What runs: names and numbers for the log and for allreduce.json."""
        wire = WIRES[self._config.wire]
        return {
            "name": self.name,
            "asked_for": self._config.name,
            "grid": list(self._communicators.grid),
            "nodes": [len(node) for node in self._communicators.nodes],
            "wire": self._config.wire,
            "bucket_bytes": [size * wire.itemsize for size in self._settled],
            "chunk_bytes": min(self.chunk_bytes, max(self._settled, default=0) * wire.itemsize),
            "backend": self._communicators.backend,
            "warning": warning(
                self._communicators.grid,
                self._communicators.node_of_rank,
                as_network(self._network),
                max(self._settled, default=0) * wire.itemsize,
            ),
            "measured": [vars(measured) for measured in self.measured],
        }

    def take_times(self) -> tuple[float, float]:
        return self._all_reduce.take_times()

    @property
    def failure(self) -> CommunicationError | None:
        return self._all_reduce.failure

    def doing(self) -> str:
        return self._all_reduce.doing()

    def running_s(self) -> float:
        return self._all_reduce.running_s()

    def close(self) -> None:
        self._all_reduce.close()
        self._own.close()

    def options(self, name: str, largest: int) -> Options:
        """What the configuration, or where it says nothing the model of the network, gives for an algorithm.

        largest: elements of the largest bucket.
        """
        config, wire = self._config, WIRES[self._config.wire]
        return Options(
            wire,
            chunk_bytes=config.chunk_kb * 1024 if config.chunk_kb else self._chunk_bytes(name, largest * wire.itemsize),
            pipelined=len(self._communicators.nodes) > 1,
            colors=config.colors,
            ring_from_bytes=config.ring_from_kb * 1024,
            ahead=config.ahead,
        )

    def _chunk_bytes(self, name: str, bucket_bytes: int) -> int:
        """The model's chunk. The backend's own all-reduce is not cut: it does that by itself."""
        if name == "native" or not bucket_bytes or self._communicators.size == 1:
            return max(1, bucket_bytes)
        return best_chunk_bytes(
            name,
            bucket_bytes,
            self._communicators.grid,
            self._communicators.node_of_rank,
            as_network(self._network),
            colors=self._config.colors,
            threshold_bytes=self._config.ring_from_kb * 1024,
        )

    def _build(self) -> None:
        bucket_elements = int(self._config.bucket_mb * 2**20 / torch.float32.itemsize)
        options = self.options(self.name, bucket_elements)
        self._all_reduce: AllReduce = build(self.name, self._own, options, self._device)

    def _switch(self, name: str) -> None:
        """Be another algorithm from now on."""
        if name != self.name:
            self.close()
            self.name = name
            self._own = self._communicators.fresh()
            self._build()

    def _measure(self, sizes: Sequence[int], group: dist.ProcessGroup) -> tuple[Measured, ...]:
        """Time every candidate on buckets of these sizes; all workers get the same figures, so they agree."""
        buckets = [torch.zeros(size, device=self._device) for size in sizes]
        candidates = dict.fromkeys(self._config.candidates)
        budget_s = MEASURE_S / len(candidates)
        found = []
        for name in candidates:
            communicators = self._communicators.fresh()
            options = self.options(name, max(sizes, default=0))
            candidate = build(name, communicators, options, self._device)
            once = seconds(candidate, buckets, group, repeats=2)[-1]  # the first opens connections
            repeats = max(3, min(20, int(budget_s / max(once, 1e-9))))
            median_s = statistics.median(seconds(candidate, buckets, group, repeats))
            candidate.close()
            communicators.close()
            found.append(Measured(name, median_s, options.chunk_bytes))
        return tuple(sorted(found, key=lambda measured: measured.median_s))
