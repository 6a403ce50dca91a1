"""Placement: what a node keeps of a data set, what that takes, and whether it is there.

    replicated    all training samples on every node
    partitioned   on every node what its workers need in this epoch, and room for the next
    auto          replicated where it leaves a fifth of what is free and is read no more than 16 times, else partitioned

Replicated, every node reads all shards: 80 TB for ImageNet on 544 nodes, which takes a parallel file system longer than
the training. Partitioned, they are read once.
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from pipeline.data.segment import FOLDER, Communicator, remove_stale
from pipeline.errors import UserError

MEMORY = Path("/proc/meminfo")
LEFT_FREE = 0.2
"""Share of the free memory that `auto` leaves to everything else."""
MOST_COPIES = 16
"""Nodes to which `auto` has the file system send all samples."""
SHOWN = 3
"""Nodes that are named where several have too little."""


def choose(
    asked: str,
    needs: Mapping[str, tuple[int, str]],
    nodes: int,
    world: Communicator,
    node: Communicator,
    *,
    folder: Path = FOLDER,
    meminfo: Path = MEMORY,
) -> tuple[str, str]:
    """The placement that runs, and a line on it; every worker calls it and gets the same placement.

    asked: data.placement. needs: bytes on the neediest node and their sum in words, for each placement that is
    possible. Raises UserError, the same on every worker, where the memory does not suffice.
    """
    free = free_bytes(folder, meminfo) if node.Get_rank() == 0 else {}
    of_nodes = [found for found in world.allgather((socket.gethostname(), free)) if found[1]]
    least = min(min(found.values()) for _, found in of_nodes)
    chosen = asked if asked in needs else "replicated"
    too_much = needs["replicated"][0] > (1 - LEFT_FREE) * least or nodes > MOST_COPIES
    if asked == "auto" and "partitioned" in needs and too_much:
        chosen = "partitioned"
    needed, words = needs[chosen]
    short = [
        f"{host}: {name} has {gigabytes(found)} free and {gigabytes(needed)} of samples go there"
        for host, free_there in of_nodes
        for name, found in list(free_there.items())
        if found < needed
    ]
    if short:
        raise UserError(_too_little(short, chosen, needs))
    if asked == "partitioned" and chosen != asked:
        chosen_for = "replicated (there is one node, so nothing is partitioned)"
    else:
        chosen_for = chosen
    where, found = next(iter(of_nodes[0][1].items()))
    return chosen, f"samples: {chosen_for}, {gigabytes(needed)} a node ({words}); {where} has {gigabytes(found)} free"


def _too_little(short: list[str], chosen: str, needs: Mapping[str, tuple[int, str]]) -> str:
    more = f"; so it is on {len(short) - SHOWN} more nodes" if len(short) > SHOWN else ""
    other = needs.get("partitioned")
    mend = "take nodes with more memory, or fewer data.train_samples"
    if chosen == "replicated" and other is not None and other[0] < needs[chosen][0]:
        mend = f"data.placement=partitioned needs {gigabytes(other[0])}"
    return f"{'; '.join(short[:SHOWN])}{more} ({needs[chosen][1]}); {mend}"


def free_bytes(folder: Path = FOLDER, meminfo: Path = MEMORY) -> dict[str, int]:
    """Free bytes by what has them: `folder`, and where the kernel tells, memory as it could be had without swapping."""
    remove_stale(folder)
    space = os.statvfs(folder)
    free = {str(folder): space.f_bavail * space.f_frsize}
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free["memory"] = int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return free


def gigabytes(count: int) -> str:
    """A number of bytes for a person."""
    return f"{count / 1e9:.3g} GB"
