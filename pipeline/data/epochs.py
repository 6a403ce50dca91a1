"""Which sample every place of an epoch takes: a pure function of (seed, epoch), and the same for any number of workers.

With `exchange_every` above 1 it is IBM's cheaper scheme (Kumar et al. 2017, DIMD): nodes exchange samples every so many
epochs and shuffle their own in between, so the order depends on which nodes there are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.config.plan import Plan, Stage
from pipeline.data import order


@dataclass(frozen=True)
class Epochs:
    """The epochs of a run."""

    seed: int
    plan: Plan
    layout: tuple[tuple[int, ...], ...] = ()
    """The workers of every node; empty: all on one."""
    exchange_every: int = 1
    """Epochs between two exchanges, counted from the start of each stage; 1: every epoch is a global shuffle."""

    @property
    def nodes(self) -> int:
        return max(1, len(self.layout))

    def slots(self, epoch: int) -> NDArray[np.int64]:
        """Samples of an epoch's updates, shape (updates, total_batch). Every sample is there; the last, short update
        is filled from the epoch's start, or in an epoch that shuffles on the nodes from the start of each node's."""
        base = self.base(epoch)
        stage = self.plan.stage_at(epoch)
        drawn = order.permutation(self.seed, base, self.plan.samples)
        slots = np.take(drawn, np.arange(stage.updates_per_epoch * stage.total_batch), mode="wrap")
        slots = slots.reshape(stage.updates_per_epoch, stage.total_batch)
        return slots if base == epoch else self._shuffled_on_nodes(epoch, slots)

    def base(self, epoch: int) -> int:
        """The epoch whose global shuffle says which node holds what in `epoch`."""
        start = self.plan.stage_at(epoch).start_epoch
        return epoch - (epoch - start) % self.exchange_every

    def node_of_worker(self) -> NDArray[np.int64]:
        """The node of every worker, shape (workers,)."""
        of_worker = np.zeros(self.plan.workers, dtype=np.int64)
        for node, workers in enumerate(self.layout):
            of_worker[list(workers)] = node
        return of_worker

    def node_of_slot(self, stage: Stage) -> NDArray[np.int64]:
        """The node of every place in an update, shape (total_batch,)."""
        return np.repeat(self.node_of_worker(), stage.micro_batches * stage.per_worker_batch)

    def _shuffled_on_nodes(self, epoch: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """The base epoch's slots, with the samples of each node in an order of this epoch's."""
        shuffled = slots.ravel()
        node_of_slot = np.tile(self.node_of_slot(self.plan.stage_at(epoch)), len(slots))
        drawn_once = np.arange(len(shuffled)) < self.plan.samples
        for node in range(self.nodes):
            here = node_of_slot == node
            own = shuffled[here & drawn_once]
            random = np.random.Generator(np.random.Philox(key=[self.seed, epoch], counter=[0, 0, 0, 1 + node]))
            shuffled[here] = np.take(random.permutation(own), np.arange(here.sum()), mode="wrap")
        return shuffled.reshape(slots.shape)
