"""What a step of messages takes on a network of three levels: workers' ports, nodes' uplinks, racks' uplinks.

A step takes the latency of the highest level that one of its messages crosses, and what the busiest link needs for its
bytes. Messages that share a link share its rate; links are full duplex. Within a node a message uses the two workers'
ports, between nodes also both nodes' uplinks, between racks also both racks'. Nothing else is modelled: switches
inside a rack have full bisection, and messages of one step start together.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WITHIN_NODE, BETWEEN_NODES, BETWEEN_RACKS = 1, 2, 3


@dataclass(frozen=True)
class Level:
    """Links of one kind. ValueError for a rate that is not above zero and for a latency below it."""

    rate_bytes_per_s: float
    """Each way, at the same time."""
    latency_s: float
    """Of a message that crosses this level and none above it, from end to end."""

    def __post_init__(self) -> None:
        if not self.rate_bytes_per_s > 0 or not self.latency_s >= 0:
            raise ValueError(f"a link has a rate above zero and a latency of zero or more, not {self}")


@dataclass(frozen=True)
class Network:
    """A site's network. ValueError for racks without their number of nodes, and the other way round."""

    worker: Level
    """A worker's port: what it sends to and receives from others, in its node or not."""
    node: Level
    """A node's uplink, all its cards together."""
    rack: Level | None = None
    """A rack's uplink, all its cables together; None: all nodes are in one."""
    nodes_per_rack: int | None = None
    """Node n is in rack n // nodes_per_rack."""
    hop_s: float = 0.0
    """What a worker's software needs for a message before the next one of the same step."""

    def __post_init__(self) -> None:
        has_racks = self.rack is not None, self.nodes_per_rack is not None and self.nodes_per_rack >= 1
        has_none = self.rack is None and self.nodes_per_rack is None
        if not (all(has_racks) or has_none) or not self.hop_s >= 0:
            raise ValueError(f"racks have an uplink and at least one node each, and time goes forward, not {self}")


@dataclass(frozen=True, eq=False)
class Load:
    """What some steps ask of the network: latency and host whatever the bytes, the rest in proportion to them."""

    latency_s: float
    """Latency and software of all steps, one after another."""
    transfer_s: float
    """What the busiest link of each step needs for its bytes, summed over the steps."""
    host_s: float
    """Software of the worker with the most messages, over all steps."""
    link_bytes: Floats
    """Bytes on each link over all steps, shape (links,), in the order of `Wiring.rates_bytes_per_s`."""

    @property
    def time_s(self) -> float:
        """All steps, one after another."""
        return self.latency_s + self.transfer_s

    def repeated(self, count: int) -> "Load":
        """The same steps `count` times."""
        return Load(self.latency_s * count, self.transfer_s * count, self.host_s * count, self.link_bytes * count)


class Wiring:
    """A network with workers on its nodes.

    node_of_rank: shape (workers,), the node of each rank, counted from 0. Raises ValueError for no workers and for
    nodes below 0.
    """

    def __init__(self, network: Network, node_of_rank: ArrayLike) -> None:
        self.network = network
        self.node_of_rank: Ints = np.asarray(node_of_rank, dtype=np.int64)
        if self.node_of_rank.ndim != 1 or not self.node_of_rank.size or self.node_of_rank.min() < 0:
            raise ValueError("node_of_rank names the node, from 0 up, of each of at least one rank")
        self.workers = len(self.node_of_rank)
        self.nodes = int(self.node_of_rank.max()) + 1
        self._rack_of_node: Ints = np.arange(self.nodes) // (network.nodes_per_rack or self.nodes)
        self.racks = int(self._rack_of_node[-1]) + 1
        counts = [self.workers, self.nodes, self.racks]
        rates = [network.worker.rate_bytes_per_s, network.node.rate_bytes_per_s]
        rates.append(network.rack.rate_bytes_per_s if network.rack else np.inf)
        self._level_rates = rates
        self.rates_bytes_per_s: Floats = np.repeat(rates, [2 * count for count in counts])
        """Of each link, shape (links,): ports out, ports in, nodes out, nodes in, racks out, racks in."""
        self._latency_s: Floats = np.array([0.0, network.worker.latency_s, network.node.latency_s, 0.0])
        self._latency_s[BETWEEN_RACKS] = network.rack.latency_s if network.rack else 0.0

    def step(self, sources: ArrayLike, destinations: ArrayLike, sizes_bytes: ArrayLike) -> Load:
        """One step in which rank sources[i] sends sizes_bytes[i] to rank destinations[i], all at once.

        Arrays of shape (messages,), or numbers where all are alike. A message to oneself takes no time.
        """
        source, destination, size = _between_workers(sources, destinations, sizes_bytes)
        level, message, link = self._crossings(source, destination)
        link_bytes = self._summed(link, size[message])
        messages = self._summed(link)[: 2 * self.workers].max()
        return Load(
            latency_s=float(self._latency_s[level.max(initial=0)] + self.network.hop_s * messages),
            transfer_s=self.busiest_s(link_bytes),
            host_s=self.network.hop_s * float(messages),
            link_bytes=link_bytes,
        )

    def shift(self, senders: Ints, receivers: Ints, size_bytes: float) -> Load:
        """`step` where each of some workers sends, and each of the same ones receives, one message of one size.

        As in a ring. What goes out of a node then also comes in, so that one count does for both: all grids of 100,000
        workers are looked at in a fraction of a second. senders, receivers: shape (messages,), the same ranks.
        """
        nodes = self.node_of_rank[senders], self.node_of_rank[receivers]
        crosses = np.flatnonzero(nodes[0] != nodes[1])
        racks = self._rack_of_node[nodes[0][crosses]], self._rack_of_node[nodes[1][crosses]]
        is_far = racks[0] != racks[1]
        ports = (senders != receivers).astype(np.float64)
        if len(senders) < self.workers:
            ports = np.bincount(senders, ports, self.workers)
        elif not np.array_equal(senders, np.arange(self.workers)):
            ports = ports[np.argsort(senders)]
        out = [
            ports,
            np.bincount(nodes[0][crosses], minlength=self.nodes),
            np.bincount(racks[0][is_far], minlength=self.racks),
        ]
        level = BETWEEN_RACKS if is_far.any() else BETWEEN_NODES if len(crosses) else WITHIN_NODE
        busiest = [float(counts.max()) * size_bytes for counts in out]
        sent = bool(ports.any())
        host_s = self.network.hop_s * float(sent)
        return Load(
            latency_s=float(self._latency_s[level] * sent + host_s),
            transfer_s=max(size / rate for size, rate in zip(busiest, self._level_rates, strict=True)),
            host_s=host_s,
            link_bytes=np.concatenate([counts for counts in out for _ in range(2)]) * size_bytes,
        )

    def steps(self, step: ArrayLike, sources: ArrayLike, destinations: ArrayLike, sizes_bytes: ArrayLike) -> Load:
        """Several steps, one after another: message i belongs to step[i], counted from 0; the rest is as in `step`."""
        source, destination, number, size = _between_workers(
            sources, destinations, np.asarray(step, dtype=np.int64), sizes_bytes
        )
        level, message, link = self._crossings(source, destination)
        links = len(self.rates_bytes_per_s)
        owner, load = np.unique(number[message] * links + link, return_inverse=True)  # a load: a link in a step
        step_of_load, link_of_load = np.divmod(owner, links)
        load_s = np.bincount(load, size[message], len(owner)) / self.rates_bytes_per_s[link_of_load]
        messages = np.bincount(load, minlength=len(owner)) * (link_of_load < 2 * self.workers)
        hosts_s = self.network.hop_s * _sum_of_maxima(step_of_load, messages)
        return Load(
            latency_s=_sum_of_maxima(number, self._latency_s[level]) + hosts_s,
            transfer_s=_sum_of_maxima(step_of_load, load_s),
            host_s=self.network.hop_s * float(self._summed(link)[: 2 * self.workers].max()),
            link_bytes=self._summed(link, size[message]),
        )

    def busiest_s(self, link_bytes: Floats) -> float:
        """What the busiest link needs for its bytes; link_bytes: shape (links,)."""
        return float((link_bytes / self.rates_bytes_per_s).max())

    def kind_of(self, link: int) -> str:
        """What link number `link` is: `a worker's port`, `a node's uplink`, `a rack's uplink`."""
        if link < 2 * self.workers:
            return "a worker's port"
        return "a node's uplink" if link < 2 * (self.workers + self.nodes) else "a rack's uplink"

    def sent_by_node(self, link_bytes: Floats) -> Floats:
        """Bytes that each node's uplink sends, shape (nodes,); link_bytes: shape (links,)."""
        return link_bytes[2 * self.workers : 2 * self.workers + self.nodes]

    def _summed(self, link: Ints, values: Floats | None = None) -> Floats:
        """The sum of the values of each link, shape (links,); how many there are where no values are given."""
        return np.bincount(link, values, len(self.rates_bytes_per_s)).astype(np.float64, copy=False)

    def _crossings(self, source: Ints, destination: Ints) -> tuple[Ints, Ints, Ints]:
        """The highest level that each message crosses, and for each link on its way the pair (message, link)."""
        everyone = np.arange(len(source))
        nodes = self.node_of_rank[source], self.node_of_rank[destination]
        between_nodes = np.flatnonzero(nodes[0] != nodes[1])
        nodes = nodes[0][between_nodes], nodes[1][between_nodes]
        racks = self._rack_of_node[nodes[0]], self._rack_of_node[nodes[1]]
        is_far = racks[0] != racks[1]
        between_racks = between_nodes[is_far]
        racks = racks[0][is_far], racks[1][is_far]
        level = np.full(len(source), WITHIN_NODE)
        level[between_nodes] = BETWEEN_NODES
        level[between_racks] = BETWEEN_RACKS
        message = [everyone, everyone, between_nodes, between_nodes, between_racks, between_racks]
        counts = [self.workers, self.workers, self.nodes, self.nodes, self.racks, self.racks]
        first = np.cumsum([0, *counts[:-1]])
        link = [start + end for start, end in zip(first, (source, destination, *nodes, *racks), strict=True)]
        return level, np.concatenate(message), np.concatenate(link)


def _between_workers(sources: ArrayLike, destinations: ArrayLike, *more: ArrayLike) -> list[NDArray[Any]]:
    """All arguments at one shape (messages,), without the messages from a worker to itself."""
    ranks = [np.atleast_1d(np.asarray(ends, dtype=np.int64)) for ends in (sources, destinations)]
    arrays = np.broadcast_arrays(*ranks, *more)
    is_sent = arrays[0] != arrays[1]
    return list(arrays) if is_sent.all() else [array[is_sent] for array in arrays]


def _sum_of_maxima(group: Ints, values: Floats | Ints) -> float:
    """The largest value of each group, summed over the groups; 0 for none."""
    maxima = np.zeros(int(group.max(initial=-1)) + 1)
    np.maximum.at(maxima, group, values)
    return float(maxima.sum())
