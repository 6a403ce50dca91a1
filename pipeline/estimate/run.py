"""What a run takes at its site: start-up, staging, stages of updates, exchange, validation. Torch-free; numpy.

In: a checked configuration and its plan. Out: seconds by part, each as a bracket from full overlap to none. Nothing is
fitted: what the site's profile does not say is left out, and said.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from pipeline.config import Config, Grid, Plan, Stage, make_plan
from pipeline.data.placement import LEFT_FREE, MOST_COPIES
from pipeline.estimate.averaging import AllReducePlan, Averaged, average
from pipeline.estimate.buckets import buckets
from pipeline.estimate.layers import layers
from pipeline.estimate.network import Network, Wiring
from pipeline.estimate.placement import as_network
from pipeline.estimate.speed import speed_of
from pipeline.estimate.step import Step, forward_share, step

BYTES_OF_WIRE = {"fp16": 2, "bf16": 2, "fp32": 4}
VALIDATION_SHARE = 50_000 / 1_281_167
"""Validation images for one training image: ILSVRC2012's."""
PACKED_BYTES_PER_S = 0.9e9
"""What a node packs, sends and unpacks of samples of 110 kB: the slower end of what was measured in one host."""


@dataclass(frozen=True)
class Bracket:
    """Two ends of what something takes or is, the lower first."""

    low: float
    high: float

    def __add__(self, other: "Bracket") -> "Bracket":
        return Bracket(self.low + other.low, self.high + other.high)

    def misfit(self, found: float) -> float:
        """How far `found` lies outside: above it more than 0, below it less, 0 inside."""
        return max(0.0, found - self.high) + min(0.0, found - self.low)


@dataclass(frozen=True)
class StageTime:
    """A stage of the run."""

    stage: Stage
    updates: int
    """That the run does of it: fewer where run.stop_after_* ends it early."""
    step: Step
    on_one_node: Step
    """The same update on one node: what efficiency is relative to, as in the paper."""
    speed_is_measured: bool
    """Whether the profile's batches reach this one."""

    @property
    def time_s(self) -> Bracket:
        return Bracket(self.updates * self.step.full_overlap_s, self.updates * self.step.no_overlap_s)

    @property
    def efficiency(self) -> Bracket:
        """Percent of one node's images a second for each worker."""
        return efficiency(self.on_one_node, self.step)


@dataclass(frozen=True)
class RunTime:
    """The whole run, in seconds."""

    nodes: int
    start_s: float
    staging_s: float
    stages: tuple[StageTime, ...]
    exchange_s: Bracket
    validation_s: float
    placement: str
    """`replicated`, `partitioned`, or `synthetic`."""

    @property
    def training_s(self) -> Bracket:
        """All updates."""
        return sum((stage.time_s for stage in self.stages), Bracket(0, 0))

    @property
    def total_s(self) -> Bracket:
        aside_s = self.start_s + self.staging_s + self.validation_s
        return self.training_s + self.exchange_s + Bracket(aside_s, aside_s)

    @property
    def node_hours(self) -> Bracket:
        return Bracket(self.nodes * self.total_s.low / 3600, self.nodes * self.total_s.high / 3600)

    @property
    def efficiency(self) -> Bracket:
        """Of the last stage, whose batch is the largest; percent."""
        return self.stages[-1].efficiency


def efficiency(on_one_node: Step, here: Step) -> Bracket:
    """Percent: no overlap on one node against none here, and full overlap against full."""
    without = on_one_node.no_overlap_s / here.no_overlap_s
    full = on_one_node.full_overlap_s / here.full_overlap_s
    return Bracket(100 * min(without, full), 100 * max(without, full))


class Model:
    """A configuration with what does not change between grids and all-reduces.

    Raises UserError where the site's profile has no speed of its network and precision.
    """

    def __init__(self, config: Config, plan: Plan | None = None) -> None:
        self.config = config
        self.plan = plan or make_plan(config)
        self.speed = speed_of(config)
        self.layers = layers(config.model, config.data.image_size)
        self.forward = forward_share(self.layers)
        self.buckets = buckets(self.layers, config.allreduce.bucket_mb)
        self.all_reduce = AllReducePlan(
            "torus" if config.allreduce.name == "auto" else config.allreduce.name,
            config.allreduce.colors,
            config.allreduce.ring_from_kb * 1024,
            None if config.allreduce.chunk_kb is None else config.allreduce.chunk_kb * 1024,
        )

    @cached_property
    def network(self) -> Network:
        return as_network(self.config.site.network)

    @cached_property
    def sizes_bytes(self) -> list[float]:
        """Of the buckets, as they travel."""
        return [float(one.elements * BYTES_OF_WIRE[self.config.allreduce.wire]) for one in self.buckets]

    @property
    def on_node(self) -> int:
        """Workers on a full node."""
        return self.config.site.workers_per_node or self.plan.workers

    def wiring(self, workers: int) -> Wiring:
        """That many workers, node by node."""
        return Wiring(self.network, np.arange(workers) // self.on_node)

    def averaged(self, grid: Grid, wiring: Wiring, all_reduce: AllReducePlan | None = None) -> list[Averaged]:
        """What each bucket takes on a grid."""
        return average(all_reduce or self.all_reduce, self.sizes_bytes, (grid.vertical, grid.horizontal), wiring)

    def update(self, batch: int, micro_batches: int, averaged: list[Averaged]) -> Step:
        """One update of `micro_batches` micro-batches of `batch` images."""
        return step(self.speed.seconds(batch), micro_batches, self.forward, self.buckets, averaged)

    @cached_property
    def of_one_node(self) -> tuple[Grid, list[Averaged]]:
        """The quickest grid of one node's workers, and what each bucket takes on it."""
        workers = min(self.on_node, self.plan.workers)
        wiring = self.wiring(workers)
        grids = [Grid(side, workers // side) for side in range(1, workers + 1) if workers % side == 0]
        found = [(grid, self.averaged(grid, wiring)) for grid in grids]
        return min(found, key=lambda one: sum(bucket.time_s for bucket in one[1]))

    def on_one_node(self, batch: int, micro_batches: int) -> Step:
        """The same update on one node, on the quickest of its grids: the baseline, as in the paper."""
        return self.update(batch, micro_batches, self.of_one_node[1])

    def run(self) -> RunTime:
        """The whole run."""
        plan, hardware = self.plan, self.config.site.hardware
        done = plan.updates_by_stage(plan.last_update(self.config.run))
        here = self.averaged(plan.grid, self.wiring(plan.workers))
        stages = tuple(
            StageTime(
                stage,
                updates,
                self.update(stage.per_worker_batch, stage.micro_batches, here),
                self.on_one_node(stage.per_worker_batch, stage.micro_batches),
                self.speed.is_measured(stage.per_worker_batch),
            )
            for stage, updates in zip(plan.stages, done, strict=True)
            if updates
        )
        nodes = ceil(plan.workers / self.on_node)
        placement, staged_bytes, moved_bytes = samples(self.config, plan, nodes)
        return RunTime(
            nodes=nodes,
            start_s=hardware.start_s or 0.0,
            staging_s=staged_bytes / (hardware.read_gb_per_s * 1e9) if hardware.read_gb_per_s else 0.0,
            stages=stages,
            exchange_s=Bracket(
                0.0, exchanges(self.config, stages) * moved_bytes / self.exchange_rate_bytes_per_s(nodes)
            ),
            validation_s=0.0 if self.config.data.synthetic else self._validation_s(stages),
            placement=placement,
        )

    def exchange_rate_bytes_per_s(self, nodes: int) -> float:
        """At which a node of `nodes` gets rid of its samples: the slowest of packing, its link, its part of a rack's.

        A rack's uplink counts only where there is another rack.
        """
        rates = [PACKED_BYTES_PER_S, self.network.node.rate_bytes_per_s]
        in_rack = self.network.nodes_per_rack
        if self.network.rack and in_rack and nodes > in_rack:
            rates.append(self.network.rack.rate_bytes_per_s / in_rack)
        return min(rates)

    def validations(self, stages: tuple[StageTime, ...]) -> tuple[int, int]:
        """(how often the run validates, images that a worker then has)."""
        epochs = sum(ceil(one.updates / one.stage.updates_per_epoch) for one in stages)
        every = self.config.run.validate_every_epochs
        images = ceil(self.plan.samples * VALIDATION_SHARE / self.plan.workers)
        return ceil(epochs / every) if every else 1, images

    def _validation_s(self, stages: tuple[StageTime, ...]) -> float:
        """All validations: every image once, forward only."""
        times, images = self.validations(stages)
        return times * self.speed.seconds(images) * self.forward


def samples(config: Config, plan: Plan, nodes: int) -> tuple[str, float, float]:
    """(placement, bytes that a node stages, bytes that it sends in an exchange)."""
    if config.data.synthetic:
        return "synthetic", 0.0, 0.0
    everything = plan.samples * (config.data.sample_kb or 0.0) * 1e3
    memory_gb = config.site.hardware.memory_gb
    is_too_much = memory_gb is not None and everything > (1 - LEFT_FREE) * memory_gb * 1e9
    placement = config.data.placement
    if placement == "auto":
        placement = "partitioned" if nodes > 1 and (nodes > MOST_COPIES or is_too_much) else "replicated"
    own = everything / nodes
    validation = everything * VALIDATION_SHARE / nodes
    if placement == "replicated":
        return placement, everything + validation, 0.0
    return placement, own + validation, own * (1 - 1 / nodes)


def exchanges(config: Config, stages: tuple[StageTime, ...]) -> int:
    """How often samples are exchanged."""
    every = config.data.exchange_every
    return sum(ceil(one.updates / one.stage.updates_per_epoch / every) for one in stages)
