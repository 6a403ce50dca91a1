"""How much of the averaging the backward pass hides: the rank program of bench.network's last table.

A model of several equal layers, each a bucket of its own, trains under DDP with the torus; its batch is chosen so that
computing an update takes `--compute` times what averaging its gradients takes. The run's own clock says how long
averaging took in all and how much of it the workers waited for.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.train import launched_rank

LAYERS = 10
WIDTH = 576
"""Of each square layer: 1.33 MB of fp32."""
UPDATES = 7


@dataclass(frozen=True)
class Overlap:
    """One all-reduce under DDP; medians of an update, means over the workers."""

    algorithm: str
    nodes: int
    workers_per_node: int
    rate_bit_per_s: float | None
    dtype: str
    model_bytes: int
    """Of its gradients in fp32."""
    buckets: int
    compute_s: float
    """Forward and backward pass without averaging."""
    communication_s: float
    """While any bucket was being averaged."""
    exposed_s: float
    """Of that, after the backward pass had handed over its last bucket."""
    update_s: float

    @property
    def exposed_share(self) -> float:
        return self.exposed_s / self.communication_s

    def as_json(self) -> dict[str, Any]:
        """Every field, with those that all rows of a bench have."""
        common = {"bench": "overlap", "size_bytes": self.model_bytes, "time_s": self.communication_s, "delay_s": 0.0}
        unknown = dict.fromkeys(("bound_s", "link_bytes", "cpu_share"))
        return asdict(self) | common | unknown | {"exposed_share": self.exposed_share}


def main(arguments: Sequence[str]) -> int:
    """One rank; the first one writes the figures as JSON to --json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", default="torus")
    parser.add_argument("--wire", default="fp32", choices=("fp16", "bf16", "fp32"))
    parser.add_argument("--compute", type=float, default=2.0, help="computing takes so many times the averaging")
    parser.add_argument("--rate", type=float, help="bit/s of a node's link, for the record")
    parser.add_argument("--interface")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    bind(launched_rank(os.environ))
    from bench import allreduce
    from pipeline import workers

    me = allreduce.start(
        argparse.Namespace(backend="gloo", interface=options.interface, grid=None, timeout=300.0, rate=options.rate)
    )
    found = measure(me, options)
    if me.is_head:
        options.json.write_text(json.dumps(found.as_json()))
    workers.stop(me.heartbeat)
    return 0


def bind(rank: int) -> None:
    """Give the worker one core of this machine, by turns; threads that start later have it too.

    Left alone, some workers get a core of their own and others share one, and what is measured is how long the quick
    wait for the slow.
    """
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def measure(me: Any, options: argparse.Namespace) -> Overlap:
    """Fit the batch to the averaging, then time updates."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    from pipeline.allreduce.averager import Averager
    from pipeline.allreduce.hook import register
    from pipeline.config.schema import AllReduceConfig
    from pipeline.config.site import LinkConfig, NetworkConfig

    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
    network = NetworkConfig(LinkConfig(1.0, 50), LinkConfig((options.rate or 1e9) / 8e9, 200))
    config = AllReduceConfig(name=options.algorithm, wire=options.wire, bucket_mb=WIDTH * WIDTH * 4 / 2**20)
    averager = Averager(config, network, me.communicators, me.device)
    parallel = DistributedDataParallel(
        model, process_group=me.world, bucket_cap_mb=config.bucket_mb, gradient_as_bucket_view=True
    )
    register(parallel, averager)

    def update(images: torch.Tensor) -> float:
        dist.barrier(me.world)
        began = time.perf_counter()
        parallel(images).square().mean().backward()
        return time.perf_counter() - began

    def compute(images: torch.Tensor) -> float:
        dist.barrier(me.world)
        began = time.perf_counter()
        with parallel.no_sync():
            parallel(images).square().mean().backward()
        return time.perf_counter() - began

    def agreed(value: float) -> float:
        mean = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(mean, group=me.control)
        return mean.item() / me.world_size

    small = torch.randn(8, WIDTH)
    for _ in range(2):  # the second one's buckets are the run's
        averager.take_sizes()
        update(small)
    sizes = averager.take_sizes()
    averager.settle(sizes, me.control, None)
    update(small)
    averaging_s = agreed(averager.take_times()[1])
    batch = 256
    per_image_s = agreed(min(compute(torch.randn(batch, WIDTH)) for _ in range(3))) / batch
    images = torch.randn(max(batch, round(options.compute * averaging_s / per_image_s)), WIDTH)
    compute_s = statistics.median(agreed(compute(images)) for _ in range(3))
    update(images)
    averager.take_times()
    updates_s, exposed_s, total_s = [], [], []
    for _ in range(UPDATES):
        updates_s.append(agreed(update(images)))
        exposed, total = averager.take_times()
        exposed_s.append(agreed(exposed))
        total_s.append(agreed(total))
    averager.close()
    return Overlap(
        algorithm=options.algorithm,
        nodes=len(me.place.layout),
        workers_per_node=len(me.place.layout[0]),
        rate_bit_per_s=options.rate,
        dtype=options.wire,
        model_bytes=sum(sizes) * 4,
        buckets=len(sizes),
        compute_s=compute_s,
        communication_s=statistics.median(total_s),
        exposed_s=statistics.median(exposed_s),
        update_s=statistics.median(updates_s),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
