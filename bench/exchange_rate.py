"""A rank of bench.exchange that stands for a node: how quickly samples move, and what that takes in memory."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.config.schema import Config
from pipeline.data import holdings
from pipeline.data.epochs import Epochs
from pipeline.data.exchange import Exchange, ends_of_rounds, layout, pack
from pipeline.data.holdings import Part
from pipeline.data.memory import SampleMemory
from pipeline.data.shard_writer import Sample, write_manifest, write_split
from pipeline.data.shards import Index, read_index
from pipeline.data.sources import Site, bring, largest, make_schedule, of_partitioned
from pipeline.data.staging import stage
from pipeline.evaluate import OneProcess

IMAGE_BYTES = 110_000
"""Mean; an image of ImageNet has about as many."""
EPOCHS = 3


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--megabytes", type=int)
    parser.add_argument("--blocks", type=int)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    world = MPI.COMM_WORLD
    samples = world.Get_size() * options.megabytes * 1_000_000 // IMAGE_BYTES
    if world.Get_rank() == 0:
        write(options.data, samples)
    world.Barrier()
    config = compose([
        "exp=exp5", f"workers={world.Get_size()}", f"data.path={options.data}", f"data.train_samples={samples}",
        "data.placement=partitioned",
    ])  # fmt: skip
    nodes = tuple((rank,) for rank in range(world.Get_size()))
    epochs = Epochs(0, make_plan(config), nodes)
    indexes = read_index(options.data, "train"), read_index(options.data, "validation")
    rows = [memory(config, epochs, indexes), rate(config, epochs, indexes[0], options.blocks)]
    if world.Get_rank() == 0:
        options.out.write_text(json.dumps(rows))
    return 0


def write(folder: Path, samples: int) -> None:
    """Shards of noise, in the sizes of photographs."""
    random = np.random.default_rng(0)
    sizes = random.lognormal(np.log(IMAGE_BYTES) - 0.08, 0.4, samples).astype(int)
    images = (Sample(f"train-{i:06d}", random.bytes(size), i % 10, 500, 375) for i, size in enumerate(sizes))
    one = [Sample("validation-0", random.bytes(1000), 0, 500, 375)]
    folder.mkdir(parents=True)
    splits = {"train": write_split(folder, "train", images, samples_per_shard=1000)}
    splits["validation"] = write_split(folder, "validation", one, samples_per_shard=1)
    write_manifest(folder, name="noise", classes=10, splits=splits)


def memory(config: Config, epochs: Epochs, indexes: tuple[Index, Index]) -> dict[str, Any]:
    """Memory of the process at its peak, beyond what it had before, against what is announced."""
    world = MPI.COMM_WORLD
    span = range(EPOCHS)
    limits = largest(make_schedule(config.data, epochs, span, indexes[0].size), world)
    announced, _ = of_partitioned(limits, 0, int(indexes[1].size.sum()))
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    source, _ = bring(config.data, epochs, span, indexes, Site(world, OneProcess(), world.Get_rank()))
    for epoch in span:
        source.epoch(epoch)
        world.Barrier()
    source.close()
    taken = max(world.allgather(status("VmHWM") - before))
    return row("memory", "the sum announced", world.Get_size(), taken / 1e6, announced / 1e6, taken / announced)


def status(name: str) -> int:
    """A line of this process's memory, bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def rate(config: Config, epochs: Epochs, train: Index, blocks: int) -> dict[str, Any]:
    """Bytes a second that leave a node, of an exchange and of Alltoallv alone."""
    world = MPI.COMM_WORLD
    schedule = make_schedule(config.data, epochs, range(1), train.size)
    limits = largest(schedule, world)
    before, after = schedule.before(0), schedule.holding(0)
    words = (world.Get_rank(), schedule.rounds, train.size, epochs.nodes)
    leave, arrive = holdings.departures(before, after, *words), holdings.arrivals(before, after, *words)
    (held,) = stage([train], OneProcess())
    target = np.empty(limits.slot, np.uint8)
    exchange = Exchange(world.Dup(), limits.send)
    packed = list(rounds(leave, held))
    ways = {
        True: lambda: exchange.move(leave, arrive, held, target),
        False: lambda: alone(packed, leave, arrive, target),
    }
    spent: dict[bool, list[float]] = {True: [], False: []}
    for block in range(blocks + 1):
        for ours, move in ways.items():
            took_s = timed(move)
            if block:
                spent[ours].append(took_s)
    megabytes = leave.counts.sum() / 1e6
    ours, peer = (megabytes / statistics.median(spent[which]) for which in (True, False))
    return row("rate", "Alltoallv alone", world.Get_size(), ours, peer, ours / peer)


def rounds(leave: Part, held: SampleMemory) -> Iterator[np.ndarray]:
    """What leaves in each round, packed."""
    ends = ends_of_rounds(leave, held.index.size)
    for samples, counts in zip(np.split(leave.samples, ends[:-1]), leave.counts, strict=True):
        yield pack(held, samples, np.empty(int(counts.sum()), np.uint8))


def alone(packed: list[np.ndarray], leave: Part, arrive: Part, target: np.ndarray) -> None:
    """The same bytes, by the blocking call and nothing else."""
    received = 0
    for buffer, there, here in zip(packed, leave.counts, arrive.counts, strict=True):
        room = target[received : received + int(here.sum())]
        MPI.COMM_WORLD.Alltoallv(layout(buffer, there), layout(room, here))
        received += len(room)


def timed(move: Callable[[], object]) -> float:
    """Seconds until all ranks are through."""
    MPI.COMM_WORLD.Barrier()
    began = time.perf_counter()
    move()
    MPI.COMM_WORLD.Barrier()
    return time.perf_counter() - began


def row(what: str, against: str, nodes: int, ours: float, peer: float, ratio: float) -> dict[str, Any]:
    """A line of the table."""
    return {"what": what, "against": against, "nodes": nodes, "ours": ours, "peer": peer, "ratio": ratio}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
