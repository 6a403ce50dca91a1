"""A torus all-reduce simulated message by message: run by the Python that has Debian's python3-simgrid.

In: JSON as the first argument, with grid, per_node, nodes_per_rack, size_bytes and (bytes/s, s) of worker, node and
rack. Out: the seconds that it takes, on stdout. Every worker passes on when it has received; nobody waits for others.
"""

import json
import sys
from typing import Any

from simgrid import Actor, Engine, LinkInRoute, Mailbox, NetZone

SETTINGS = (
    "network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/latency-factor:1",
    "network/bandwidth-factor:1", "network/weight-S:0",
)  # fmt: skip
"""Links share their rate evenly and TCP's own windows and headers are left out, as in the model."""


def main(case: dict[str, Any]) -> float:
    engine = Engine(["all_reduce", "--log=root.thres:critical", *(f"--cfg={one}" for one in SETTINGS)])
    vertical, horizontal = case["grid"]
    rings = [ring_of(rank, vertical, horizontal) for rank in range(vertical * horizontal)]
    hosts = build(case, rings)
    for rank, host in enumerate(hosts):
        Actor.create(f"worker {rank}", host, Worker(rank, rings[rank], case))
    engine.run()
    return float(engine.clock)


def ring_of(rank: int, vertical: int, horizontal: int) -> tuple[int, int]:
    """Whom a worker sends to: on its row, on its column."""
    row, column = divmod(rank, horizontal)
    return row * horizontal + (column + 1) % horizontal, (row + 1) % vertical * horizontal + column


class Worker:
    """One worker's messages: row, column, column, row."""

    def __init__(self, rank: int, ring: tuple[int, int], case: dict[str, Any]) -> None:
        self.rank, self.ring, self.case = rank, ring, case

    def __call__(self) -> None:
        vertical, horizontal = self.case["grid"]
        part = self.case["size_bytes"] / horizontal
        for phase, (axis, length, size) in enumerate(
            [
                (0, horizontal, part),
                (1, vertical, part / vertical),
                (1, vertical, part / vertical),
                (0, horizontal, part),
            ]
        ):
            for step in range(length - 1):
                words = f"{phase} {step}"
                sent = Mailbox.by_name(f"{self.ring[axis]} {words}").put_async("", round(size))
                Mailbox.by_name(f"{self.rank} {words}").get()
                sent.wait()


def build(case: dict[str, Any], rings: list[tuple[int, int]]) -> list[Any]:
    """Hosts whose ports, nodes and racks have links each way, with routes between those that send."""
    zone = NetZone.create_full_zone("all")
    hosts = [zone.create_host(f"{rank}", 1e9) for rank in range(len(rings))]
    rate = {level: case[level][0] for level in ("worker", "node", "rack")}
    links: dict[str, Any] = {}

    def link(name: str, bytes_per_s: float) -> Any:
        if name not in links:
            links[name] = zone.create_link(name, bytes_per_s).seal()
        return links[name]

    def delay(level: str, pair: str) -> Any:
        """The latency of a message, on a wire of its own that is never the narrowest."""
        wire = zone.create_link(f"latency {pair}", 4 * max(rate.values()))
        return wire.set_latency(case[level][1]).seal()

    for sender, ring in enumerate(rings):
        for receiver in set(ring) - {sender}:
            ends = [("worker", sender, receiver)]
            nodes = sender // case["per_node"], receiver // case["per_node"]
            racks = nodes[0] // case["nodes_per_rack"], nodes[1] // case["nodes_per_rack"]
            ends += [("node", *nodes)] if nodes[0] != nodes[1] else []
            ends += [("rack", *racks)] if racks[0] != racks[1] else []
            way = [delay(ends[-1][0], f"{sender} {receiver}")]
            for level, out, into in ends:
                way += [link(f"{level} {out} out", rate[level]), link(f"{level} {into} in", rate[level])]
            route = [LinkInRoute(one) for one in way]
            zone.add_route(hosts[sender].netpoint, hosts[receiver].netpoint, None, None, route, False)
    zone.seal()
    return hosts


if __name__ == "__main__":
    print(main(json.loads(sys.argv[1])))
