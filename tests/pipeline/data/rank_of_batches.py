"""What a rank of test_exchange.py runs: the batches of many worlds of workers, as digests.

`mpirun -n 8 python -m tests.pipeline.data.rank_of_batches DATA SHM`. A world is the first of MPI's ranks, split into as
many nodes as asked for; rank 0 prints a line of JSON a world.
"""

import hashlib
import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mpi4py import MPI

from jobs.compose import compose
from pipeline import preflight
from pipeline.config import make_plan
from pipeline.data import decode
from pipeline.data.epochs import Epochs
from pipeline.data.loader import TrainingLoader
from pipeline.data.sources import Site, bring

WORDS = [
    "exp=exp5", "scale=272", "data.train_samples=470", "data.on_bad_sample=replace", "data.exchange_round_bytes=30000",
    "data.window.area=[0.3,1]", "data.mirror=true",
]  # fmt: skip
"""Eight virtual workers, four updates an epoch."""


@dataclass(frozen=True)
class World:
    """One way to run."""

    workers: int
    nodes: int
    placement: str
    exchange_every: int = 1
    first_update: int = 0
    updates: int = 9
    span: int = 9
    """Updates that the data are brought in for; the batches after `updates` are never taken."""


WORLDS = [
    *(World(workers, 1, "replicated") for workers in (1, 2, 4, 8)),
    *(World(workers, nodes, "partitioned") for workers in (2, 4, 8) for nodes in (2, 4) if nodes <= workers),
    World(8, 2, "replicated"),
    *(World(4, nodes, "partitioned", first_update=118, updates=4, span=4) for nodes in (1, 2, 4)),  # 16 to 32 a worker
    *(World(8, nodes, "partitioned", updates=2, span=200) for nodes in (2, 4)),  # stopped in the middle
    *(World(8, 2, placement, exchange_every=2) for placement in ("replicated", "partitioned")),
]


def main(data: str, shm: str) -> None:
    """Run all worlds one after the other."""
    decoder = decode.build(compose(WORDS).data)
    for world in WORLDS:
        ranks = MPI.COMM_WORLD.Split(0 if MPI.COMM_WORLD.Get_rank() < world.workers else MPI.UNDEFINED, 0)
        if ranks != MPI.COMM_NULL:
            digests = run(world, ranks, Path(data), Path(shm), decoder)
            if ranks.Get_rank() == 0:
                print(json.dumps({"world": vars(world), "digests": digests}), flush=True)
        MPI.COMM_WORLD.Barrier()


def run(world: World, ranks: Any, data: Path, shm: Path, decoder: Any) -> list[str]:
    """A digest of every update: of its images and labels, in the order of the virtual workers."""
    config = compose([
        *WORDS, f"data.path={data}", f"workers={world.workers}", f"data.placement={world.placement}",
        f"data.exchange_every={world.exchange_every}",
    ])  # fmt: skip
    plan, rank = make_plan(config), ranks.Get_rank()
    per_node = world.workers // world.nodes
    layout = tuple(tuple(range(node * per_node, (node + 1) * per_node)) for node in range(world.nodes))
    epochs = Epochs(config.seed, plan, layout, world.exchange_every)
    node = ranks.Split(rank // per_node, rank)
    span = plan.epochs_between(world.first_update, world.first_update + world.span)
    site = Site(ranks, node, rank // per_node, folder=shm)
    train, _ = bring(config.data, epochs, span, preflight.read_data(config, plan, ranks), site)
    assert list(shm.iterdir()) == []
    loader = TrainingLoader(
        train, config.data, plan, seed=config.seed, worker=rank, first_update=world.first_update,
        last_update=world.first_update + world.span, decoder=decoder, epochs=epochs,
    )  # fmt: skip
    digests = []
    for micro_batches in itertools.islice(loader, world.updates):
        own = torch.cat([batch.images for batch in micro_batches]).contiguous().numpy().tobytes()
        labels = torch.cat([batch.labels for batch in micro_batches]).numpy().tobytes()
        parts = ranks.gather((own, labels))
        if parts:
            digests.append(hashlib.sha256(b"".join(itertools.chain(*zip(*parts, strict=True)))).hexdigest())
        ranks.Barrier()
    loader.close()
    train.close()
    return digests


if __name__ == "__main__":
    main(*sys.argv[1:])
