"""Who am I: rank, local rank, node, place in the grid, process groups.

MPI gives rank and world; torch.distributed is started from it on a free port that the first rank finds. A world that is
not the grid's stops at once: many launchers fall back to worlds of one without a word.
"""

import ctypes
import os
import signal
import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from pipeline.config import Grid
from pipeline.config.schema import SiteConfig
from pipeline.errors import UserError

PROMISES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "TORUS224_WORLD_SIZE")
"""Where launchers say how many processes they started."""

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Workers:
    """This worker among all."""

    rank: int
    world_size: int
    local_rank: int
    node: int
    nodes: int
    grid: Grid
    device: torch.device
    world: dist.ProcessGroup
    """All workers, on the site's backend."""
    control: dist.ProcessGroup
    """All workers, for small CPU tensors."""
    row: dist.ProcessGroup
    column: dist.ProcessGroup
    node_communicator: Any
    """mpi4py communicator of this node's workers."""

    @property
    def is_head(self) -> bool:
        return self.rank == 0


def die_with_launcher() -> None:
    """Ask the kernel to end this process when its launcher dies: a handler that swallows TERM would outlive it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def check_world(size: int, grid: Grid, environment: dict[str, str]) -> None:
    """Raise UserError unless the world has the grid's size and the one the launcher promised."""
    for name in PROMISES:
        promised = environment.get(name, "")
        if promised.isdigit() and int(promised) > 1 and size == 1:
            raise UserError(
                f"MPI sees a world of one, but the launcher started {promised} processes ({name}): the MPI of the "
                "launcher and of the program do not meet; start both from one Open MPI, and let OMPI_*, PMIX_* and "
                "PRTE_* reach the program"
            )
    if size == grid.workers:
        return
    sides = [(rows, size // rows) for rows in range(1, size + 1) if size % rows == 0]
    possible = ", ".join(f"{rows}x{columns}" for rows, columns in sides)
    raise UserError(
        f"{size} processes were started and the grid {grid} needs {grid.workers}; start {grid.workers}, "
        f"or for {size} take one of the grids {possible}"
    )


def start(site: SiteConfig, grid: Grid) -> Workers:
    """Start MPI and torch.distributed; every rank of the job calls it once."""
    from mpi4py import MPI  # starts MPI: only a rank may import it

    world = MPI.COMM_WORLD
    check_world(world.Get_size(), grid, dict(os.environ))
    rank = world.Get_rank()
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    leaders = sorted(set(world.allgather(node.bcast(rank))))
    my_leader = node.bcast(rank)
    device = _device(site, node.Get_rank())
    one_node = len(leaders) == 1
    if one_node:  # loopback needs no resolvable host name
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = _store(world, rank, "127.0.0.1" if one_node else socket.getfqdn())
    dist.init_process_group(
        site.backend,
        store=store,
        rank=rank,
        world_size=world.Get_size(),
        device_id=device if device.type == "cuda" else None,
    )
    mesh = init_device_mesh(device.type, (grid.vertical, grid.horizontal), mesh_dim_names=("vertical", "horizontal"))
    control = dist.group.WORLD if site.backend == "gloo" else dist.new_group(backend="gloo")
    assert dist.group.WORLD is not None, "init_process_group made it"
    assert isinstance(control, dist.ProcessGroup), "this rank is in it"
    return Workers(
        rank=rank,
        world_size=world.Get_size(),
        local_rank=node.Get_rank(),
        node=leaders.index(my_leader),
        nodes=len(leaders),
        grid=grid,
        device=device,
        world=dist.group.WORLD,
        control=control,
        row=mesh.get_group("horizontal"),
        column=mesh.get_group("vertical"),
        node_communicator=node,
    )


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


def _store(world: Any, rank: int, head: str) -> dist.TCPStore:
    """A key-value store on the first rank, on a port that the kernel picks while the store holds it."""
    timeout = timedelta(seconds=120)
    if rank == 0:
        store = dist.TCPStore(head, 0, is_master=True, wait_for_workers=False, timeout=timeout)
        world.bcast((head, store.port))
        return store
    address, port = world.bcast(None)
    return dist.TCPStore(address, port, is_master=False, timeout=timeout)


def stop() -> None:
    """End torch.distributed, when every rank is done."""
    dist.barrier()
    dist.destroy_process_group()
