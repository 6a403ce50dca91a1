"""A site's profile, measured: `make calibrate`, or `python -m bench.calibrate` under a launcher that starts MPI.

    mpirun -n 64 python -m bench.calibrate --backend nccl --output conf/site/mine.yaml

Latency and rate of a worker's port and of a node's uplink are those of a ring's steps, in a node and over nodes, which
is what the all-reduces send. Images a second are of all workers at once. Outside a launcher it starts --workers here.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.allreduce import WORLDS, leave, start
from jobs import compose, local
from jobs.command_line import EXIT_INTERRUPTED, Parser, fail
from pipeline.config.checks import COMPUTE
from pipeline.errors import UserError
from pipeline.estimate.layers import COUNTED
from pipeline.wording import counted

if TYPE_CHECKING:
    from pipeline.workers import Workers

SMALL_BYTES, SMALL_STEPS = 8, 200
LARGE_BYTES, LARGE_STEPS = 8_000_000, 12
SPEED_S = 3.0
"""About how long each batch is computed, in two rows."""
MOST_TIMEOUT_S = 1_000_000


def main(arguments: Sequence[str]) -> int:
    """Start the workers where there are none, measure, write; returns the exit code."""
    try:
        options = parse(arguments)
        check(options)
        if not any(name in os.environ for name in WORLDS):
            return launch(options.workers, arguments)
    except UserError as error:
        return fail(str(error))
    except KeyboardInterrupt:  # the ranks end with their launcher
        return EXIT_INTERRUPTED
    try:
        me = start(options)
        found = measure(me, options)
        if me.is_head:
            write(profile(found, options), options.output)
    except UserError as error:
        leave(f"error: {error}")
    except OSError as error:
        leave(f"error: {error.filename or 'the output'}: {error.strerror or error}")
    except Exception:
        leave(traceback.format_exc())
    from pipeline import workers

    workers.stop(me.heartbeat)
    return 0


def launch(workers: int, arguments: Sequence[str]) -> int:
    """Start the workers on this machine; returns their exit code. Raises UserError where there is no mpirun."""
    if not Path(sys.executable).with_name("mpirun").exists():
        raise UserError(f"no mpirun beside {sys.executable}: run through make, which sets up .venv, or `make setup`")
    command = local.launch_command(workers, [sys.executable, "-m", "bench.calibrate", *arguments])
    return subprocess.run(command, check=False, env=local.environment() | {"OMP_NUM_THREADS": "1"}).returncode


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = Parser(prog="make calibrate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="the profile to write, as conf/site/mine.yaml; default: print it")
    parser.add_argument("--workers", type=int, default=4, help="to start here, outside a launcher")
    parser.add_argument("--base", default="local", help="the site that it is like in all else: local, slurm, pbs, …")
    parser.add_argument("--backend", default="gloo", choices=("gloo", "nccl"))
    parser.add_argument("--interface", help="network interface between nodes, as eth0")
    parser.add_argument("--model", choices=COUNTED, help="default: resnet50 on GPUs, small_resnet on CPUs")
    parser.add_argument("--image-size", type=int, help="pixels a side; default: 224, or the sample's 16")
    parser.add_argument("--precision", choices=COMPUTE, help="default: fp16 on GPUs, fp32 on CPUs")
    parser.add_argument("--batches", default="16,32,64", help="images in a micro-batch")
    parser.add_argument("--timeout", type=float, default=300.0, help="s that a message may take")
    options = parser.parse_args(arguments)
    on_gpu = options.backend == "nccl"
    options.model = options.model or ("resnet50" if on_gpu else "small_resnet")
    options.image_size = options.image_size or (224 if options.model == "resnet50" else 16)
    options.precision = options.precision or ("fp16" if on_gpu else "fp32")
    options.grid = options.rate = None
    return options


def check(options: argparse.Namespace) -> None:
    """Raise UserError for what cannot be used, before anything starts."""
    batches = options.batches.split(",")
    if not all(re.fullmatch(r"[0-9]{1,6}", one) and int(one) > 1 for one in batches):
        raise UserError(f"--batches {options.batches}: whole numbers above 1, with commas between them, as 16,32,64")
    if options.workers < 1 or options.image_size < 1:
        raise UserError("--workers and --image-size: at least 1")
    if not 0 < options.timeout < MOST_TIMEOUT_S:
        raise UserError(f"--timeout {options.timeout:g}: seconds, above 0 and below {MOST_TIMEOUT_S:,}")
    if options.base not in (sites := compose.choices_of("site")):
        raise UserError(f"--base {options.base}: no such site; there are {', '.join(sites)}")
    if options.output is not None:
        _check_output(options.output)


def _check_output(path: Path) -> None:
    """Its name becomes the site's, which SITE= takes."""
    if path.suffix != ".yaml" or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", path.stem):
        raise UserError(f"--output {path}: a file's name of letters, digits, . _ - that ends in .yaml, as mine.yaml")
    if path.exists() or path.is_symlink():
        raise UserError(f"--output {path}: is there already; name another, or remove it")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UserError(f"--output {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise UserError(f"--output {path}: nothing can be written into {folder}")


@dataclass(frozen=True)
class Link:
    """One level of the network."""

    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True)
class Found:
    """What was measured."""

    nodes: int
    workers_per_node: int
    worker: Link | None
    """None where every node has one worker."""
    node: Link | None
    """None on one node."""
    images_per_s: dict[int, float]
    """Of a worker, by batch, while all compute."""
    memory_bytes: int


def measure(me: "Workers", options: argparse.Namespace) -> Found:
    """Everything; all workers call it together and get the same figures."""
    layout = me.place.layout
    here = next(list(node) for node in layout if me.rank in node)
    place = here.index(me.rank)
    worker = node = None
    if len(layout[0]) > 1:
        worker = link(me, here[(place + 1) % len(here)], here[place - 1], 1)
    if len(layout) > 1:
        number = next(number for number, ranks in enumerate(layout) if me.rank in ranks)
        after, before = layout[(number + 1) % len(layout)], layout[number - 1]
        node = link(me, list(after)[place], list(before)[place], len(here))
    speeds = {int(batch): images_per_s(me, int(batch), options) for batch in options.batches.split(",")}
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Found(len(layout), len(layout[0]), worker, node, speeds, memory_bytes)


def link(me: "Workers", after: int, before: int, sharers: int) -> Link:
    """A ring's steps to rank `after` from rank `before`; `sharers` workers of a node send over its link at once."""
    latency_s = step_s(me, after, before, SMALL_BYTES, SMALL_STEPS)
    large_s = step_s(me, after, before, LARGE_BYTES, LARGE_STEPS)
    return Link(sharers * LARGE_BYTES / max(large_s - latency_s, 1e-9), latency_s)


def step_s(me: "Workers", after: int, before: int, size_bytes: int, steps: int) -> float:
    """Seconds a step of steps in a row, the slowest worker's; the best of three rows, so that what disturbs is out."""
    import time

    import torch
    import torch.distributed as dist

    outgoing = torch.zeros(size_bytes // 4, device=me.device)
    incoming = torch.empty_like(outgoing)
    taken = []
    for _ in range(4):  # the first opens connections
        dist.barrier(group=me.control)
        began = time.perf_counter()
        for _ in range(steps):
            messages = [dist.P2POp(dist.isend, outgoing, after), dist.P2POp(dist.irecv, incoming, before)]
            for request in dist.batch_isend_irecv(messages):
                request.wait()
        if me.device.type == "cuda":
            torch.cuda.synchronize(me.device)
        taken.append((time.perf_counter() - began) / steps)
    return slowest(me, min(taken[1:]))


def images_per_s(me: "Workers", batch: int, options: argparse.Namespace) -> float:
    """Images a second of the slowest worker: forward, backward and update on synthetic images, all workers at once.

    The better of two rows, so that what disturbs is out.
    """
    import time

    import torch
    from torch import nn

    from pipeline import models, precision
    from pipeline.config.schema import ModelConfig, PrecisionConfig

    classes = 1000 if options.model == "resnet50" else 10
    config = ModelConfig(name=options.model, classes=classes, stem=16, widths=[32, 64], blocks=[1, 1])
    numbers = PrecisionConfig(compute=options.precision, loss_scale=None)
    model = models.build(config).to(me.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    size = options.image_size
    images = torch.randn(batch, 3, size, size, device=me.device).contiguous(memory_format=torch.channels_last)
    labels = torch.zeros(batch, dtype=torch.int64, device=me.device)

    def updates(count: int) -> float:
        torch.distributed.barrier(group=me.control)
        began = time.perf_counter()
        for _ in range(count):
            with precision.autocast(numbers, me.device.type):
                loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if me.device.type == "cuda":
            torch.cuda.synchronize(me.device)
        return slowest(me, (time.perf_counter() - began) / count)

    once_s = min(updates(2), updates(2))
    count = max(3, int(SPEED_S / 2 / once_s))
    return batch / min(updates(count), updates(count))


def slowest(me: "Workers", figure: float) -> float:
    """The largest of all workers' figures."""
    import torch
    import torch.distributed as dist

    shared = torch.tensor([figure], dtype=torch.float64)
    dist.all_reduce(shared, dist.ReduceOp.MAX, group=me.control)
    return float(shared)


def profile(found: Found, options: argparse.Namespace) -> str:
    """The YAML of a site's profile."""
    name = options.output.stem if options.output else "measured"
    size = f"{counted(found.nodes, 'node')} of {counted(found.workers_per_node, 'worker')}"
    where = f"{size}, {options.backend}, on {platform.node()}"
    lines = [
        "# @package _global_",
        f"# Measured by `make calibrate`: {where}. A rack's uplink is not seen from here.",
        "defaults:",
        f"  - {options.base}",
        "  - _self_",
        "site:",
        f"  name: {json.dumps(name)}",
        *network(found),
        "  hardware:",
        "    speeds:",
    ]
    for batch, speed in sorted(found.images_per_s.items()):
        lines.append(
            f"      - {{model: {options.model}, image_size: {options.image_size}, precision: {options.precision}, "
            f"batch: {batch}, images_per_s: {speed:.4g}}}"
        )
    lines.append(f"    memory_gb: {found.memory_bytes / 1e9:.4g}")
    return "\n".join(lines) + "\n"


def network(found: Found) -> list[str]:
    """What was seen of the network; nothing where one worker had nobody to send to."""
    if found.worker is None and found.node is None:
        return ["  # network: one worker sees none, so it is the base's"]
    lines = ["  network:"]
    if found.worker is not None:
        lines += level("worker", found.worker, "measured: a ring's steps in a node")
    elif found.node is not None:
        lines += level("worker", found.node, "one worker a node, so not measured: the node's")
    if found.node is not None:
        lines += level("node", found.node, "measured: a ring's steps over nodes, all workers at once")
    elif found.worker is not None:
        lines += level("node", found.worker, "one node, so not measured: the worker's")
    return lines


def level(name: str, link: Link, source: str) -> list[str]:
    return [
        f"    {name}:{'':{12 - len(name)}}# {source}",
        f"      gb_per_s: {link.bytes_per_s / 1e9:.4g}",
        f"      latency_us: {link.latency_s * 1e6:.4g}",
    ]


def write(text: str, path: Path | None) -> None:
    """Into the file, or on stdout."""
    if path is None:
        print(text, end="", flush=True)
        return
    path.write_text(text)
    in_place = path.absolute().parent.resolve() == (compose.CONF / "site").resolve()
    how = f"make estimate SITE={path.stem} reads it" if in_place else f"in {compose.CONF / 'site'} it is a site"
    print(f"{path}; {how}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
