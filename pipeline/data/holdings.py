"""Which node holds which samples, and what moves when that changes. Pure arithmetic, the same on every node.

A sample that an epoch uses once has one node. One that the epoch's wrap-around uses again may be needed on a second
node; the first to use it counts as its holder and hands it on.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.data.epochs import Epochs


@dataclass(frozen=True)
class Holding:
    """Who needs what in an epoch: pairs of a sample and a node, each once; the first `samples` pairs are the samples in
    order with their holders."""

    sample: NDArray[np.int64]
    node: NDArray[np.int64]
    first_use: NDArray[np.float64]
    """When the node uses it first, as a share of all that the node uses in the epoch, in [0, 1)."""
    samples: int

    @property
    def holder(self) -> NDArray[np.int64]:
        """The node that hands a sample on, shape (samples,)."""
        return self.node[: self.samples]

    def bytes_of_nodes(self, size: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
        """Bytes that each node holds, shape (nodes,). size: of every sample, in bytes."""
        return total(self.node, size[self.sample], nodes)


@dataclass(frozen=True)
class Part:
    """What one node sends or receives: samples in the order of (round, other node, sample)."""

    samples: NDArray[np.int64]
    counts: NDArray[np.int64]
    """Bytes in each round from or to each node, shape (rounds, nodes)."""


def needed(epochs: Epochs, epoch: int) -> Holding:
    """The holding of an epoch whose samples are drawn from all (`Epochs.base`)."""
    slots = epochs.slots(epoch)
    flat = slots.ravel()
    node_of_slot = epochs.node_of_slot(epochs.plan.stage_at(epoch))
    node, when = np.tile(node_of_slot, len(slots)), _when(node_of_slot, len(slots))
    samples, backwards = epochs.plan.samples, slice(None, None, -1)
    first, holder = np.empty(samples, np.int64), np.empty(samples, np.int64)
    first[flat[backwards]] = np.arange(len(flat))[backwards]  # of equal places the last one written stays: the first
    holder[:] = node[first]
    again = np.flatnonzero(node != holder[flat])
    _, distinct = np.unique(flat[again] * epochs.nodes + node[again], return_index=True)
    again = again[distinct]
    return Holding(
        np.concatenate([np.arange(samples), flat[again]]),
        np.concatenate([holder, node[again]]),
        when[np.concatenate([first, again])],
        samples,
    )


def _when(node_of_slot: NDArray[np.int64], updates: int) -> NDArray[np.float64]:
    """How much of an epoch's work its node has behind it at each slot, shape (updates * total_batch,).

    By nodes, since an update's slots lie node by node: a round of neighbouring slots would all go to one.
    """
    of_update = np.empty(len(node_of_slot))
    for node in np.unique(node_of_slot):
        here = np.flatnonzero(node_of_slot == node)
        of_update[here] = np.arange(len(here)) / len(here)
    return ((np.arange(updates)[:, None] + of_update) / updates).ravel()


def staged(size: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """The holders when shards are read: runs of neighbouring samples of about equal bytes; shape (samples,)."""
    ends = np.cumsum(size)
    middle = ends - size / 2
    return np.minimum(middle * nodes // max(1, int(ends[-1])), nodes - 1).astype(np.int64)


def arrivals(
    before: NDArray[np.int64], after: Holding, node: int, rounds: int, size: NDArray[np.int64], nodes: int
) -> Part:
    """What `node` receives when the holders `before` hand over to `after`; its memory is in this order."""
    return _part(after.node == node, before[after.sample], after, rounds, size, nodes)


def departures(
    before: NDArray[np.int64], after: Holding, node: int, rounds: int, size: NDArray[np.int64], nodes: int
) -> Part:
    """What `node` sends when the holders `before` hand over to `after`."""
    return _part(before[after.sample] == node, after.node, after, rounds, size, nodes)


def largest_sends(before: NDArray[np.int64], after: Holding, rounds: int, size: NDArray[np.int64], nodes: int) -> int:
    """Bytes that any node sends or receives at most in a round."""
    when = _rounds(after, rounds)
    sizes = size[after.sample]
    sides = (before[after.sample], after.node)
    return int(max(total(side * rounds + when, sizes, nodes * rounds).max() for side in sides))


def total(group: NDArray[np.int64], size: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Sums of sizes by group, shape (groups,); exact up to 2**53 bytes."""
    return np.bincount(group, weights=size, minlength=groups).astype(np.int64)


def _part(
    mine: NDArray[np.bool_], other: NDArray[np.int64], after: Holding, rounds: int, size: NDArray[np.int64], nodes: int
) -> Part:
    chosen = np.flatnonzero(mine)
    when, who, samples = _rounds(after, rounds)[chosen], other[chosen], after.sample[chosen]
    in_order = np.lexsort((samples, who, when))
    counts = total(when * nodes + who, size[samples], rounds * nodes).reshape(rounds, nodes)
    return Part(samples[in_order], counts)


def _rounds(after: Holding, rounds: int) -> NDArray[np.int64]:
    """The round in which each pair moves: what is used first moves first."""
    return (after.first_use * rounds).astype(np.int64)
