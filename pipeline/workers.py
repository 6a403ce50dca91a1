"""Who am I: rank, local rank, node, place in the grid, process groups.

MPI gives rank and world; torch.distributed is started from it on a free port that the first rank finds. A world that is
not the grid's stops at once: many launchers fall back to worlds of one without a word.

Ranks are numbered anew, node by node, whatever the launcher dealt: with neighbours on other nodes every row would cross
the network at every step.
"""

import ctypes
import os
import platform
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from pipeline.allreduce.communicators import Communicators
from pipeline.config import Grid
from pipeline.config.site import NetworkConfig, SiteConfig
from pipeline.data.segment import Communicator
from pipeline.errors import UserError
from pipeline.estimate.algorithms import legal_grids
from pipeline.estimate.placement import as_network, listed
from pipeline.heartbeat import Heartbeat
from pipeline.node_checks import Report, meet
from pipeline.world import check_world, program_mpi

PR_SET_PDEATHSIG = 1

COMPARED_BYTES = 51e6
"""Grids are compared by an all-reduce of ResNet-50's gradients in fp16."""

SILENT_S = 60
"""NCCL ends a process at its time-out without a word on who is missing: it waits so much longer than the heartbeat."""


@dataclass(frozen=True)
class Place:
    """Where this worker runs."""

    rank: int
    local_rank: int
    """Among the workers of its node: the GPU it takes."""
    node: int
    layout: tuple[tuple[int, ...], ...]
    """The ranks on every node, in order."""
    node_workers: Communicator
    """The workers of its node, for what they share."""
    launched_rank: int | None = None
    """What the launcher's words and the log files call it; None: its rank."""


@dataclass(frozen=True)
class Workers:
    """This worker among all."""

    place: Place
    grid: Grid
    device: torch.device
    world: dist.ProcessGroup
    """All workers, on the site's backend."""
    control: dist.ProcessGroup
    """All workers, for small CPU tensors."""
    communicators: Communicators
    """For all-reduces: by row, column and node."""
    heartbeat: Heartbeat

    @property
    def rank(self) -> int:
        return self.place.rank

    @property
    def world_size(self) -> int:
        return self.grid.workers

    @property
    def is_head(self) -> bool:
        return self.place.rank == 0


def die_with_launcher() -> None:
    """Ask the kernel to end this process when its launcher dies: a handler that swallows TERM would outlive it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def node_by_node(found: Sequence[tuple[int, int]]) -> tuple[list[int], tuple[tuple[int, ...], ...]]:
    """Number ranks anew so that those of a node follow each other.

    found: of each launched rank (its node's first launched rank, its place on the node). Returns the new rank of each,
    and the new ranks on every node.
    """
    order = sorted(range(len(found)), key=lambda launched: found[launched])
    ranks = [0] * len(found)
    nodes: dict[int, list[int]] = {}
    for rank, launched in enumerate(order):
        ranks[launched] = rank
        nodes.setdefault(found[launched][0], []).append(rank)
    return ranks, tuple(map(tuple, nodes.values()))


def best_first(layout: Sequence[Sequence[int]], network: NetworkConfig) -> str:
    """The legal grids of workers that lie on nodes like this, best first by the model of the network."""
    node_of_rank = [node for node, ranks in enumerate(layout) for _ in ranks]
    grids = legal_grids(len(node_of_rank), node_of_rank, as_network(network), COMPARED_BYTES)
    return f"{listed(grids)} (a torus all-reduce of {COMPARED_BYTES / 1e6:g} MB by the model)"


def start(
    site: SiteConfig,
    grid: Grid,
    timeout_s: float,
    *,
    at: Callable[[str], None] = lambda _: None,
    attempt: Path | None = None,
    told: Callable[[Report], None] = lambda _: None,
) -> Workers:
    """Start MPI and, from it, torch.distributed; every rank of the job calls it once.

    timeout_s: how long a message between workers may take. at: told each stage. attempt: the attempt's folder, None
    where there is none. told: given what was found of the nodes, on the first rank.
    """
    at("starting MPI")
    from mpi4py import MPI  # starts MPI: only a rank may import it

    world = MPI.COMM_WORLD
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    mpi = program_mpi(MPI.Get_library_version())
    found = world.allgather((node.bcast(world.Get_rank()), node.Get_rank(), _versions(mpi)))
    ranks, layout = node_by_node([(first, place) for first, place, _ in found])
    check_world(world.Get_size(), grid, os.environ, mpi=mpi, legal_grids=lambda: best_first(layout, site.network))
    at("comparing nodes")
    node_of_rank, versions = [first for first, _, _ in found], [one for _, _, one in found]
    store = meet(world, node, node_of_rank, versions, site, attempt=attempt, told=told)
    at("connecting to the others")
    rank = ranks[world.Get_rank()]
    here = next(number for number, there in enumerate(layout) if rank in there)
    return connect(site, grid, store, Place(rank, node.Get_rank(), here, layout, node, world.Get_rank()), timeout_s)


def connect(site: SiteConfig, grid: Grid, store: dist.Store, place: Place, timeout_s: float) -> Workers:
    """Start torch.distributed on `store`; every worker calls it once."""
    device = _device(site, place.local_rank)
    heartbeat = Heartbeat(store, place.rank, grid.workers, timeout_s, launched_rank=place.launched_rank)
    timeout = timedelta(seconds=timeout_s if site.backend == "gloo" else timeout_s + SILENT_S)
    dist.init_process_group(
        site.backend,
        store=store,
        rank=place.rank,
        world_size=grid.workers,
        timeout=timeout,
        device_id=device if device.type == "cuda" else None,
    )
    control = (
        dist.group.WORLD
        if site.backend == "gloo"
        else dist.new_group(timeout=timedelta(seconds=timeout_s), backend="gloo")
    )
    assert dist.group.WORLD is not None, "init_process_group made it"
    assert isinstance(control, dist.ProcessGroup), "this rank is in it"
    communicators = Communicators(
        place.rank,
        (grid.vertical, grid.horizontal),
        place.layout,
        backend=site.backend,
        timeout_s=timeout.total_seconds(),
    )
    return Workers(place, grid, device, dist.group.WORLD, control, communicators, heartbeat)


def stop(heartbeat: Heartbeat) -> None:
    """End torch.distributed, when every rank is done."""
    with heartbeat.collective("last barrier"):
        dist.barrier()
    heartbeat.close()
    dist.destroy_process_group()


def _versions(mpi: str) -> dict[str, str]:
    """What must be the same on every rank. mpi: the program's MPI and its version."""
    return {"Python": platform.python_version(), "torch": torch.__version__, "MPI": mpi}


def _device(site: SiteConfig, local_rank: int) -> torch.device:
    """This worker's device: the GPU of its local rank, never of its rank."""
    if site.device == "cpu":
        return torch.device("cpu")
    found = torch.cuda.device_count()
    if local_rank >= found:
        raise UserError(
            f"local rank {local_rank} finds {found} GPUs on {socket.gethostname()}; one worker needs one GPU"
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)
