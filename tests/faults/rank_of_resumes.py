"""What a rank of test_exact_resume.py runs: a whole run that saves after every update, and resumes from many of them.

`mpirun -n WORKERS python -m tests.faults.rank_of_resumes FOLDER DATA WORLD DRAWS`. With samples replicated and
partitioned; rank 0 prints a line of JSON a resume.
"""

import json
import random
import shutil
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from mpi4py import MPI

from jobs.compose import compose
from pipeline import checkpoint, preflight, workers
from pipeline.config import Config, Plan, make_plan
from pipeline.data.sources import Site, bring
from pipeline.metrics import read_metrics
from pipeline.run_folder import RunFolder
from pipeline.trainer import Trainer, epochs_of
from tests.pipeline.test_trainer import Late, Recorder, digest, tensors

STAGES = "[{start_epoch:0,per_worker_batch:16},{start_epoch:3,per_worker_batch:32},{start_epoch:6,per_worker_batch:56}]"
WORDS = [
    "model.stem=4", "model.widths=[4,4]", "model.blocks=[1,1]", "data.image_size=12", "allreduce.bucket_mb=0.001",
    f"recipe.stages={STAGES}", "recipe.epochs=10", "data.train_samples=470", "optim.lr=1.0", "data.decoder=torchvision",
    "run.checkpoint_every_updates=1", "run.keep_checkpoints=1000", "run.agree_every_updates=4",
    "run.validate_every_epochs=0", "data.exchange_round_bytes=30000",
]  # fmt: skip

AFTER = 2
"""Updates that are compared after every resume."""


@dataclass(frozen=True)
class World:
    """Workers, and the nodes that they are told to be on."""

    words: list[str]
    workers: int
    nodes: int


WORLDS = {
    "1": World(["exp=exp5", "workers=1"], 1, 1),
    "2": World(["exp=exp5", "workers=2"], 2, 2),
    "2x2": World(["exp=exp5"], 4, 2),
    "1x4": World(["exp=exp5", "grid.vertical=1"], 4, 2),
    "5": World(["exp=exp3"], 5, 5),
    "2x3": World(["exp=exp4"], 6, 2),
}


def drawn(name: str, plan: Plan, count: int) -> list[int]:
    """The updates to resume after: both switches of stages, and others at random, mostly amid an epoch."""
    switches = [plan.first_update(stage.start_epoch) for stage in plan.stages[1:]]
    others = [update for update in range(1, plan.updates - AFTER + 1) if update not in switches]
    return sorted([*switches, *random.Random(name).sample(others, count - len(switches))])


def main(folder: str, data: str, name: str, draws: str) -> None:
    """Run one world with both placements."""
    torch.set_num_threads(1)
    world = WORLDS[name]
    config = compose([*world.words, *WORDS, f"data.path={data}"])
    me = connect(config, world)
    for placement in ("replicated", "partitioned"):
        config.data.placement = placement
        found = resumes(config, me, Path(folder) / placement, drawn(name, make_plan(config), int(draws)))
        if me.is_head:
            print("\n".join(json.dumps({"placement": placement, **one}) for one in found), flush=True)
    workers.stop(me.heartbeat)


def connect(config: Config, world: World) -> workers.Workers:
    """This worker among all; neighbours in rank are told to be one node."""
    ranks = MPI.COMM_WORLD
    rank, per_node = ranks.Get_rank(), world.workers // world.nodes
    wait = timedelta(seconds=60)
    head = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=wait) if rank == 0 else None
    port = ranks.bcast(head.port if head else None)
    store = head or dist.TCPStore("127.0.0.1", port, is_master=False, timeout=wait)
    layout = tuple(tuple(range(node * per_node, (node + 1) * per_node)) for node in range(world.nodes))
    node = ranks.Split(rank // per_node, rank)
    place = workers.Place(rank, rank % per_node, rank // per_node, layout, node)
    return workers.connect(config.site, make_plan(config).grid, store, place, 60.0)


def resumes(config: Config, me: workers.Workers, path: Path, updates: list[int]) -> list[dict[str, Any]]:
    """A whole run, and one that goes on after each of `updates`; what differs between them, on the first rank."""
    whole = made(path / "whole", me)
    buckets = attempt(config, me, whole, make_plan(config).updates)
    found = []
    for update in updates:
        folder = made(path / str(update), me)
        if me.is_head:
            for one in (whole.checkpoint(update), whole.all_reduce):
                shutil.copy(one, folder.path / one.relative_to(whole.path))
        attempt(config, me, folder, update + AFTER)
        if me.is_head:
            found.append({"update": update, "buckets": buckets, "differ": differ(whole, folder, update)})
            shutil.rmtree(folder.path)
    return found


def made(path: Path, me: workers.Workers) -> RunFolder:
    """A run folder that the first rank makes."""
    folder = RunFolder.create(path) if me.is_head else RunFolder(path)
    MPI.COMM_WORLD.Barrier()
    return folder


def attempt(config: Config, me: workers.Workers, folder: RunFolder, last: int) -> int:
    """Train up to update `last` from the newest checkpoint; returns the number of buckets."""
    MPI.COMM_WORLD.Barrier()
    config.run.stop_after_updates = last
    plan = make_plan(config)
    site = Site(MPI.COMM_WORLD, me.place.node_workers, me.place.node, folder=folder.path.parent)
    first = MPI.COMM_WORLD.bcast(checkpoint.newest(folder) or 0)
    indexes = preflight.read_data(config, plan, MPI.COMM_WORLD)
    memories = bring(config.data, epochs_of(config, plan, me), plan.epochs_between(first, last), indexes, site)
    observer = Late()
    trainer = Trainer(config, plan, me, folder, memories, observer, lambda: False)
    assert trainer.update == first
    observer.recorder = Recorder(folder, first, me.rank)
    trainer.run()
    memories[0].close()
    sizes = trainer.averaging["bucket_bytes"]
    assert isinstance(sizes, list)
    return len(sizes)


def differ(whole: RunFolder, resumed: RunFolder, update: int) -> list[str]:
    """The losses and tensors of the updates after `update` that are not the same to the bit."""
    losses, again = ({line["update"]: line["loss"] for line in read_metrics(of.metrics)} for of in (whole, resumed))
    found = [f"loss {number}" for number in range(update + 1, update + AFTER + 1) if losses[number] != again[number]]
    for number in range(update + 1, update + AFTER + 1):
        one, other = (tensors(vars(checkpoint.read(of.checkpoint(number)))) for of in (whole, resumed))
        assert one.keys() == other.keys()
        found += [f"{name} after {number}" for name in one if digest(one[name]) != digest(other[name])]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
