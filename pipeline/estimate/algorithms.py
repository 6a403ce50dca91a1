"""What each all-reduce of `pipeline.allreduce` takes on a network, and which chunk and which grid suit it.

Every function takes the same four: `size_bytes`, the message as it travels; `grid`, (vertical, horizontal), with rank =
row * horizontal + column; `node_of_rank`, shape (workers,), the node of each rank, counted from 0; and the network.
Sources of the algorithms: torus Mikami et al. 2018 (arXiv 1811.05233), ring Patarasuk and Yuan 2009, hierarchical and
hybrid Jia et al. 2018 (1807.11205), multicolor Kumar et al. 2017 (1711.00705), tree Sanders, Speck and Träff 2009.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from pipeline.allreduce.shapes import Tree, double_binary, multicolor, over_nodes
from pipeline.estimate.network import Floats, Ints, Load, Network, Wiring
from pipeline.estimate.phases import Estimate, Phase

SMALLEST_CHUNK_BYTES = 16 * 1024
AS_GOOD = 1.01
"""Times within this factor are alike: SimGrid's and ours differ by as much."""
COLORS = 4
"""Trees of `multicolor`, as in the paper."""


def estimate(
    name: str,
    size_bytes: float,
    grid: tuple[int, int],
    node_of_rank: ArrayLike,
    network: Network,
    *,
    colors: int = COLORS,
    threshold_bytes: float | None = None,
) -> Estimate:
    """What the all-reduce `name` takes for one message.

    name: `torus`, `ring`, `hierarchical`, `hybrid`, `multicolor`, `tree` or `native` (gloo's: a ring over the ranks).
    colors: trees of `multicolor`. threshold_bytes: from this size on `hybrid` is a ring, below it is hierarchical;
    None: whichever is faster in its best chunks.

    Raises ValueError for another name, a size below 0 and a grid that is not the workers'.
    """
    wiring = Wiring(network, node_of_rank)
    return phases_of(name, size_bytes, grid, wiring, colors=colors, threshold_bytes=threshold_bytes)


def link_bytes(
    name: str,
    size_bytes: float,
    grid: tuple[int, int],
    node_of_rank: ArrayLike,
    network: Network,
    *,
    colors: int = COLORS,
    threshold_bytes: float | None = None,
) -> Floats:
    """Bytes that each node's uplink sends in one all-reduce, shape (nodes,). Arguments and errors as `estimate`'s."""
    wiring = Wiring(network, node_of_rank)
    found = phases_of(name, size_bytes, grid, wiring, colors=colors, threshold_bytes=threshold_bytes)
    return wiring.sent_by_node(found.link_bytes)


def bound_s(size_bytes: float, node_of_rank: ArrayLike, network: Network) -> float:
    """No all-reduce is faster: 2(N-1)/N of the message goes out of and into each of N nodes (Patarasuk, Yuan 2009)."""
    nodes = len(np.unique(node_of_rank))
    return 2 * (nodes - 1) / nodes * size_bytes / network.node.rate_bytes_per_s


def best_chunk_bytes(
    name: str,
    size_bytes: float,
    grid: tuple[int, int],
    node_of_rank: ArrayLike,
    network: Network,
    *,
    colors: int = COLORS,
    threshold_bytes: float | None = None,
) -> int:
    """The chunk to cut messages of `size_bytes` into: a power of two, 16 KiB at least.

    Of those within 1 % of the fastest the largest: the model is no better than that, and fewer messages cost less of
    what it leaves out. At most the first that holds the whole message. Arguments and errors as `estimate`'s.
    """
    wiring = Wiring(network, node_of_rank)
    found = phases_of(name, size_bytes, grid, wiring, colors=colors, threshold_bytes=threshold_bytes)
    return _best_chunk(found, size_bytes)[1]


@dataclass(frozen=True)
class GridTime:
    """What the torus takes on a grid."""

    vertical: int
    horizontal: int
    time_s: float
    """Of one all-reduce, pipelined in chunks of `chunk_bytes`."""
    chunk_bytes: int
    splits_a_node: bool
    """Whether `split_rows` finds any: then the busiest nodes send about twice the bytes."""


def legal_grids(workers: int, node_of_rank: ArrayLike, network: Network, size_bytes: float) -> list[GridTime]:
    """All grids of `workers` workers, the fastest for a torus all-reduce of `size_bytes` first.

    Of equally fast ones the nearest to a square comes first. Raises ValueError unless `node_of_rank` has `workers`.
    """
    wiring = Wiring(network, node_of_rank)
    found = []
    for vertical in (side for side in range(1, workers + 1) if workers % side == 0):
        grid = vertical, workers // vertical
        time_s, chunk_bytes = _best_chunk(phases_of("torus", size_bytes, grid, wiring), size_bytes)
        found.append(GridTime(*grid, time_s, chunk_bytes, bool(split_rows(grid, wiring.node_of_rank))))
    return sorted(found, key=lambda one: (one.time_s, max(one.vertical, one.horizontal), one.vertical))


def split_rows(grid: tuple[int, int], node_of_rank: ArrayLike) -> tuple[int, ...]:
    """The rows that split a node, ascending: rows of several nodes, on one of which workers of another row are too.

    Two rows that share a node's uplink send twice the bytes of one. A row inside one node uses no uplink and splits
    nothing. Where nodes hold neighbouring ranks there are none if each node's workers divide `horizontal` or are
    divided by it. Raises ValueError for a grid that is not the workers'.
    """
    nodes = np.asarray(node_of_rank, dtype=np.int64)
    _check_grid(grid, len(nodes))
    vertical, horizontal = grid
    count = int(nodes.max()) + 1
    pairs = np.arange(len(nodes)) // horizontal * count + nodes
    pairs = pairs[np.flatnonzero(np.diff(pairs, prepend=-1))]  # neighbouring ranks are mostly alike: fewer to sort
    if (np.diff(pairs) <= 0).any():  # where ranks fill one node after another they are sorted already
        pairs = np.unique(pairs)
    row, node = np.divmod(pairs, count)
    is_shared = np.bincount(node, minlength=count)[node] > 1
    is_wide = np.bincount(row, minlength=vertical)[row] > 1
    return tuple(np.flatnonzero(np.bincount(row[is_shared & is_wide], minlength=vertical)).tolist())


class _Workers:
    """All workers with one message; a method for each algorithm's phases."""

    def __init__(self, wiring: Wiring, grid: tuple[int, int], size_bytes: float) -> None:
        self.wiring = wiring
        self.vertical, self.horizontal = grid
        self.size_bytes = size_bytes
        self.ranks: Ints = np.arange(wiring.workers)

    @cached_property
    def members(self) -> list[Ints]:
        """Ranks of each node that has any, ascending; in order of nodes."""
        order = np.argsort(self.wiring.node_of_rank, kind="stable")
        starts = np.flatnonzero(np.diff(self.wiring.node_of_rank[order])) + 1
        return np.split(order, starts)

    def torus(self) -> list[Phase]:
        row, column = np.divmod(self.ranks, self.horizontal)
        to_right = self._ring(self.ranks, row * self.horizontal + (column + 1) % self.horizontal, self.horizontal)
        below = (row + 1) % self.vertical * self.horizontal + column
        down = self._ring(self.ranks, below, self.vertical, share=1 / self.horizontal)
        return [
            self._phase("reduce-scatter on the row", self.horizontal - 1, to_right),
            self._phase("reduce-scatter on the column", self.vertical - 1, down),
            self._phase("all-gather on the column", self.vertical - 1, down),
            self._phase("all-gather on the row", self.horizontal - 1, to_right),
        ]

    def ring(self) -> list[Phase]:
        return self._flat_ring(self.ranks, "")

    def hierarchical(self) -> list[Phase]:
        """A chain in each node to its first worker, a ring of these, and the chain back."""
        place = np.concatenate([np.arange(len(node)) for node in self.members])
        order = np.concatenate(self.members)
        child = np.flatnonzero(place)
        reduce, broadcast = self._up_and_down(order[child], order[child - 1], place[child], share=1.0)
        masters = np.array([node[0] for node in self.members])
        longest = int(place.max())
        return [
            self._phase("reduce in the node", longest, reduce, streams=True),
            *self._flat_ring(masters, " of the nodes"),
            self._phase("broadcast in the node", longest, broadcast, streams=True),
        ]

    def hybrid(self, threshold_bytes: float | None) -> list[Phase]:
        if threshold_bytes is not None:
            return self.ring() if self.size_bytes >= threshold_bytes else self.hierarchical()
        candidates = self.ring(), self.hierarchical()
        return min(candidates, key=lambda phases: _best_chunk(Estimate(self.wiring, tuple(phases)), self.size_bytes))

    def multicolor(self, colors: int) -> list[Phase]:
        return self._trees(multicolor(len(self.members), colors))

    def tree(self) -> list[Phase]:
        return self._trees(double_binary(len(self.members)))

    def _trees(self, trees: Sequence[Tree]) -> list[Phase]:
        """Trees over nodes at the same time, each with its part of the message and entering at its own local worker."""
        members = [node.tolist() for node in self.members]
        everywhere = [over_nodes(tree, members, entry) for entry, tree in enumerate(trees)]
        parents = np.concatenate([[-1 if up is None else up for up in tree.parents] for tree in everywhere])
        levels = np.concatenate([tree.levels for tree in everywhere])
        child = np.flatnonzero(levels)
        reduce, broadcast = self._up_and_down(
            child % self.wiring.workers, parents[child], levels[child], share=1 / len(trees)
        )
        depth = int(levels.max())
        return [
            self._phase("reduce up the trees", depth, reduce, streams=True),
            self._phase("broadcast down the trees", depth, broadcast, streams=True),
        ]

    def _flat_ring(self, members: Ints, of_whom: str) -> list[Phase]:
        load = self._ring(members, np.roll(members, -1), len(members))
        steps = len(members) - 1
        return [self._phase(f"{half}{of_whom}", steps, load) for half in ("reduce-scatter", "all-gather")]

    def _ring(self, senders: Ints, receivers: Ints, length: int, share: float = 1.0) -> Load:
        """A reduce-scatter or all-gather on rings of `length` that carry `share` of the message: length-1 steps."""
        return self.wiring.shift(senders, receivers, share * self.size_bytes / length).repeated(length - 1)

    def _up_and_down(self, children: Ints, parents: Ints, levels: Ints, share: float) -> tuple[Load, Load]:
        """All members of a level send to their parents at the same time, the deepest first; and the way back."""
        size, depth = share * self.size_bytes, int(levels.max(initial=0))
        up = self.wiring.steps(depth - levels, children, parents, size)
        return up, self.wiring.steps(levels - 1, parents, children, size)

    def _phase(self, name: str, steps: int, load: Load, *, streams: bool = False) -> Phase:
        if not streams:  # a ring's steps are all alike, so its busiest link is the same in each
            return Phase(name, steps, load, load.transfer_s, streams)
        return Phase(name, steps, load, self.wiring.busiest_s(load.link_bytes), streams)


def phases_of(
    name: str,
    size_bytes: float,
    grid: tuple[int, int],
    wiring: Wiring,
    *,
    colors: int = COLORS,
    threshold_bytes: float | None = None,
) -> Estimate:
    """`estimate` on workers that are wired already: all grids of them share that. Raises as it does."""
    _check_grid(grid, wiring.workers)
    if not size_bytes >= 0:
        raise ValueError(f"a message has no or some bytes, not {size_bytes}")
    workers = _Workers(wiring, grid, size_bytes)
    algorithms: dict[str, Callable[[], list[Phase]]] = {
        "torus": workers.torus,
        "ring": workers.ring,
        "hierarchical": workers.hierarchical,
        "hybrid": partial(workers.hybrid, threshold_bytes),
        "multicolor": partial(workers.multicolor, colors),
        "tree": workers.tree,
        "native": workers.ring,
    }
    if name not in algorithms:
        raise ValueError(f"there is no all-reduce {name}; there are {', '.join(algorithms)}")
    nothing_is_sent = size_bytes == 0 or wiring.workers == 1
    return Estimate(wiring, () if nothing_is_sent else tuple(algorithms[name]()))


def _best_chunk(estimate: Estimate, size_bytes: float) -> tuple[float, int]:
    """Seconds of the largest chunk size that is as good as the fastest, and that size."""
    sizes = [SMALLEST_CHUNK_BYTES]
    while sizes[-1] < size_bytes:
        sizes.append(2 * sizes[-1])
    times = [estimate.pipelined_s(max(1, ceil(size_bytes / size))) for size in sizes]
    return next((t, size) for t, size in zip(times[::-1], sizes[::-1], strict=True) if t <= AS_GOOD * min(times))


def _check_grid(grid: tuple[int, int], workers: int) -> None:
    vertical, horizontal = grid
    if vertical < 1 or horizontal < 1 or vertical * horizontal != workers:
        raise ValueError(f"the grid {vertical}x{horizontal} is not one of {workers} workers")
