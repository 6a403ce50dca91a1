"""A rank of bench.exchange that trains: epochs of the scale model with either placement, in turn."""

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import torch.distributed as dist
from mpi4py import MPI

from pipeline import preflight, workers
from pipeline.config import Config, load, make_plan
from pipeline.data import decode
from pipeline.data.decode import Decoder
from pipeline.data.epochs import Epochs
from pipeline.data.loader import TrainingLoader
from pipeline.data.memory import Source
from pipeline.data.sources import Site, bring
from pipeline.run_folder import RunFolder
from pipeline.train import Silent
from pipeline.trainer import Trainer

NODES = 2
EPOCHS = 4
"""Of a block; the first is not counted."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--blocks", type=int)
    options = parser.parse_args(arguments)
    folder = RunFolder(options.run)
    config = load(folder.config)
    plan = make_plan(config)
    preflight.set_threads(config.site.threads_per_worker)
    me = on_nodes(workers.start(config.site, plan.grid, config.allreduce.timeout_s))
    indexes = preflight.read_data(config, plan)
    site = Site(MPI.COMM_WORLD, me.place.node_workers, me.place.node)
    spent: dict[str, list[float]] = {"replicated": [], "partitioned": []}
    trainer, decoder = None, decode.build(config.data)
    for block in range(options.blocks):
        for placement, times in spent.items():
            data = replace(config.data, placement=placement)
            span = range(block * EPOCHS, (block + 1) * EPOCHS)
            epochs = Epochs(config.seed, plan, me.place.layout)
            source, validation = bring(data, epochs, span, indexes, site)
            trainer = trainer or Trainer(config, plan, me, folder, (source, validation), Silent(), lambda: False)
            trainer.start_clock()
            times += train(trainer, config, source, epochs, span, decoder, me.rank)
            source.close()
    if me.is_head:
        ours, peer = (1000 * statistics.median(spent[name]) for name in ("partitioned", "replicated"))
        row = {"what": "epoch", "against": "replicated", "nodes": NODES, "ours": ours, "peer": peer}
        (options.run / "rows.json").write_text(json.dumps([row | {"ratio": ours / peer}]))
    workers.stop(me.heartbeat)
    return 0


def train(
    trainer: Trainer, config: Config, source: Source, epochs: Epochs, span: range, decoder: Decoder, rank: int
) -> list[float]:
    """Train the epochs of `span`; seconds of each but the first."""
    plan = epochs.plan
    trainer.update = plan.first_update(span.start)
    loader = TrainingLoader(
        source, config.data, plan, seed=config.seed, worker=rank, first_update=trainer.update,
        last_update=plan.first_update(span.stop), decoder=decoder, epochs=epochs,
    )  # fmt: skip
    batches, ends = iter(loader), []
    for epoch in span:
        while trainer.update < plan.first_update(epoch + 1):
            trainer.advance(batches)
        dist.barrier()
        ends.append(time.perf_counter())
    loader.close()
    return [there - here for here, there in pairwise(ends)]


def on_nodes(me: workers.Workers) -> workers.Workers:
    """The same worker, as if this machine were several nodes."""
    per_node = me.world_size // NODES
    layout = tuple(tuple(range(node * per_node, (node + 1) * per_node)) for node in range(NODES))
    node = me.rank // per_node
    return replace(
        me, place=replace(me.place, node=node, layout=layout, node_workers=MPI.COMM_WORLD.Split(node, me.rank))
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
