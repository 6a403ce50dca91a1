"""All all-reduces in one run, in nccl-tests' words: `python -m bench.allreduce` under any launcher that starts MPI.

    mpirun -n 16 python -m bench.allreduce --grid 4x4 --sizes 1,10 --rate 100e6

Every algorithm first tries some chunk sizes and is measured with its best, several times in a row. What it takes is
the slowest worker's time from a barrier on. Outside a launcher it starts four workers on this machine.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from bench.allreduce_options import RING_AHEAD, algorithms, check, grid, parse
from bench.emulated_hosts import sent_from_here
from bench.rows import Row, bound_s, print_rows, print_sweep
from jobs import local
from pipeline.config.site import LinkConfig, NetworkConfig, SiteConfig
from pipeline.errors import UserError
from pipeline.train import launched_rank

if TYPE_CHECKING:
    from pipeline.allreduce.contract import AllReduce
    from pipeline.workers import Workers

WORLDS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_NTASKS")
"""Where launchers leave words for a rank."""
COLUMNS = 150
"""Of the table: a launcher hides how wide the terminal is."""
DIVISORS = (1, 2, 4, 8, 12, 16, 32)
"""A sweep tries the size divided by these."""
SMALLEST_CHUNK_BYTES = 32 * 1024
LARGE_BYTES = 20_000_000
"""From this size on a sweep leaves out chunks so large that nothing would overlap, and what warms up is small."""
SMALL_BYTES = 1_000_000
RING_FROM_BYTES = 1 << 20
"""Where `hybrid` changes over."""
QUICK_S = 0.5
QUICK_TRIALS = 5
"""What is over within so many seconds is repeated so many times as often."""


def main(arguments: list[str]) -> int:
    """Start the workers where there are none, measure; returns the exit code."""
    options = parse(arguments, __doc__)
    try:
        check(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not any(name in os.environ for name in WORLDS):
        command = local.launch_command(4, [sys.executable, "-m", "bench.allreduce", *arguments])
        return subprocess.run(command, check=False, env=local.environment() | {"OMP_NUM_THREADS": "1"}).returncode
    try:
        me = start(options)
        rows = measure(me, options)
        if me.is_head:
            report(rows, options)
    except UserError as error:
        leave(f"error: {error}")
    except Exception:
        leave(traceback.format_exc())
    from pipeline import workers

    workers.stop(me.heartbeat)
    return 0


def leave(words: str) -> NoReturn:
    """End this rank, and with it all; the first one has the word where all would say the same."""
    if launched_rank(os.environ):
        time.sleep(2)
    print(words, file=sys.stderr, flush=True)
    os._exit(1)  # MPI's own exit handler would wait for ranks that never come


def start(options: argparse.Namespace) -> "Workers":
    """This worker among all that the launcher started."""
    import torch
    from mpi4py import MPI

    from pipeline import workers

    torch.set_num_threads(1)
    workers.die_with_launcher()
    size = MPI.COMM_WORLD.Get_size()
    on_node = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED).Get_size()
    device = "cuda" if options.backend == "nccl" else "cpu"
    site = SiteConfig(name="bench", backend=options.backend, device=device, threads_per_worker=1)
    site.interface = options.interface
    site.network = NetworkConfig(LinkConfig(1.0, 50), LinkConfig((options.rate or 8e9) / 8e9, 200))
    return workers.start(site, grid(options.grid, size, on_node), options.timeout)


def measure(me: "Workers", options: argparse.Namespace) -> list[Row]:
    """Every algorithm at every size; all workers get the same rows."""
    rows: list[Row] = []
    for name in algorithms(options.algorithms):
        all_reduce, close = make(name, me, options)
        rows += [at_size(me, name, all_reduce, round(float(size) * 1e6), options) for size in options.sizes.split(",")]
        all_reduce.close()
        close()
    return rows


def make(name: str, me: "Workers", options: argparse.Namespace) -> "tuple[AllReduce, Callable[[], None]]":
    """An all-reduce, and what ends its communicators."""
    from pipeline.allreduce.hook import WIRES as TYPES
    from pipeline.allreduce.hook import Options, build

    own = me.communicators.fresh()
    wanted = Options(
        TYPES[options.wire],
        chunk_bytes=1 << 20,
        pipelined=len(me.place.layout) > 1,
        ring_from_bytes=RING_FROM_BYTES,
        ahead=name == RING_AHEAD,
    )
    return build("ring" if name == RING_AHEAD else name, own, wanted, me.device), own.close


def at_size(me: "Workers", name: str, all_reduce: "AllReduce", size_bytes: int, options: argparse.Namespace) -> Row:
    """Sweep the chunk sizes, then measure the best."""
    trials: dict[int, float] = {}
    for chunk_bytes in chunks(name, size_bytes, options.chunks):
        all_reduce.chunk_bytes = chunk_bytes
        tried = several(me, all_reduce, size_bytes, 1, options)
        if tried[0].time_s < QUICK_S:
            tried = several(me, all_reduce, size_bytes, QUICK_TRIALS, options)
        trials[chunk_bytes] = statistics.median(shot.time_s for shot in tried)
    best = best_chunk(trials)
    all_reduce.chunk_bytes = best
    repeats = options.repeats * (QUICK_TRIALS if trials[best] < QUICK_S else 1)
    found = row(me, name, size_bytes, trials, several(me, all_reduce, size_bytes, repeats, options), options)
    if me.is_head:
        words = f"{name}, {size_bytes / 1e6:g} MB: {1000 * found.time_s:.4g} ms with chunks of {best / 1e6:.3g} MB"
        print(words, file=sys.stderr, flush=True)
    return found


def best_chunk(trials: Mapping[int, float]) -> int:
    """The largest chunk that took within 1 % of the least; of two as good ones the one with fewer messages."""
    return max(chunk for chunk, time_s in trials.items() if time_s <= 1.01 * min(trials.values()))


def chunks(name: str, size_bytes: int, words: str) -> list[int]:
    """Chunk sizes to try, in bytes."""
    if name == "native":
        return [size_bytes]  # the backend cuts by itself
    if words != "sweep":
        return [round(float(word) * 1e6) for word in words.split(",")]
    divisors = [by for by in DIVISORS if by in (8, 16, 32)] if size_bytes >= LARGE_BYTES else DIVISORS
    return [-(-size_bytes // by) for by in divisors if by == 1 or size_bytes // by >= SMALLEST_CHUNK_BYTES]


@dataclass(frozen=True)
class Shot:
    """One all-reduce: what the slowest worker took, and what all of them used."""

    time_s: float
    cpu_s: float
    link_bytes: float
    """Of the busiest node's link."""
    wrong: float
    """Elements that are not the mean."""


def several(
    me: "Workers", all_reduce: "AllReduce", size_bytes: int, count: int, options: argparse.Namespace
) -> list[Shot]:
    """Average a bucket of known numbers `count` times in a row, as nccl-tests does; all workers get the same figures.

    One more goes before: a connection that has been idle starts slowly. After the first the bucket holds the mean
    already, and must go on to do so.
    """
    import torch
    import torch.distributed as dist

    from pipeline.allreduce.hook import WIRES as TYPES

    wire = TYPES[options.wire]
    numbers = torch.arange(size_bytes // wire.itemsize, device=me.device) % 251
    bucket = (numbers + me.rank % 8).to(wire)
    expected = (numbers + sum(rank % 8 for rank in range(me.world_size)) / me.world_size).to(torch.float32)
    all_reduce(bucket if size_bytes < LARGE_BYTES else bucket[: SMALL_BYTES // wire.itemsize].clone()).wait()
    sent = _sent(me, options.interface)
    figures = []
    for _ in range(count):
        dist.barrier(group=me.control)
        cpu_s, began = _cpu_s(), time.perf_counter()
        all_reduce(bucket).wait()
        if me.device.type == "cuda":
            torch.cuda.synchronize(me.device)
        figures.append([time.perf_counter() - began, _cpu_s() - cpu_s])
    dist.barrier(group=me.control)
    sent = _sent(me, options.interface) - sent
    tolerance = 256 * torch.finfo(wire).eps * me.world_size
    wrong = (bucket.to(torch.float32) - expected).abs().gt(tolerance).sum().item()
    times_s = torch.tensor([time_s for time_s, _ in figures] + [sent / count], dtype=torch.float64)
    sums = torch.tensor([cpu_s for _, cpu_s in figures] + [float(wrong)], dtype=torch.float64)
    dist.all_reduce(times_s, dist.ReduceOp.MAX, group=me.control)
    dist.all_reduce(sums, group=me.control)
    link_bytes, wrong = times_s[-1].item(), sums[-1].item()
    return [
        Shot(time_s, cpu_s, link_bytes, wrong)
        for time_s, cpu_s in zip(times_s[:-1].tolist(), sums[:-1].tolist(), strict=True)
    ]


def row(
    me: "Workers",
    name: str,
    size_bytes: int,
    trials: dict[int, float],
    shots: Sequence[Shot],
    options: argparse.Namespace,
) -> Row:
    """The line of an algorithm at one size: medians."""
    time_s = statistics.median(shot.time_s for shot in shots)
    layout = me.place.layout
    return Row(
        algorithm=name,
        nodes=len(layout),
        workers_per_node=len(layout[0]),
        rate_bit_per_s=options.rate,
        delay_s=options.delay,
        dtype=options.wire,
        size_bytes=size_bytes,
        repeats=len(shots),
        time_s=time_s,
        bound_s=bound_s(len(layout), size_bytes, options.rate),
        link_bytes=round(statistics.median(shot.link_bytes for shot in shots)) if options.interface else None,
        cpu_share=statistics.median(shot.cpu_s / (shot.time_s * _cores(me)) for shot in shots),
        theory_bytes=theory_bytes(me, name, size_bytes),
        grid=str(me.grid),
        chunk_bytes=None if name == "native" else best_chunk(trials),
        sweep_s=trials,
        wrong=round(max(shot.wrong for shot in shots)),
    )


def theory_bytes(me: "Workers", name: str, size_bytes: int) -> int | None:
    """What the busiest node sends by the algorithm's own arithmetic; None on one node."""
    if len(me.place.layout) < 2:
        return None
    from pipeline.estimate.algorithms import link_bytes
    from pipeline.estimate.network import Level, Network

    any_network = Network(Level(1e9, 0), Level(1e9, 0))  # bytes do not depend on rates
    algorithm = "ring" if name == RING_AHEAD else name
    layout = (me.grid.vertical, me.grid.horizontal)
    nodes = me.communicators.node_of_rank
    return round(link_bytes(algorithm, size_bytes, layout, nodes, any_network, threshold_bytes=RING_FROM_BYTES).max())


def _cores(me: "Workers") -> int:
    """Cores of all machines; emulated hosts share those of one."""
    shared = os.environ.get("TORUS224_EMULATED_HOSTS") == "1"
    return (os.cpu_count() or 1) * (1 if shared else len(me.place.layout))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _sent(me: "Workers", interface: str | None) -> int:
    """Bytes that this node's link has sent so far, by its first worker; 0 where no interface is named."""
    return 0 if interface is None or me.place.local_rank else sent_from_here(interface)


def report(rows: Sequence[Row], options: argparse.Namespace) -> None:
    """Print the tables, write what was asked for."""
    console = Console(highlight=False, width=COLUMNS, force_terminal=False)
    first = rows[0]
    link = "link rate not given" if options.rate is None else f"{options.rate / 1e6:g} Mbit/s a node"
    title = (
        f"All-reduce on {first.nodes} nodes x {first.workers_per_node} workers, grid {first.grid}, ranks node by node, "
        f"{options.backend}, {link}{f', {2000 * options.delay:g} ms round trip' if options.delay else ''}; "
        f"medians of {first.repeats}"
    )
    print_rows(console, title, rows)
    print_sweep(console, rows)
    if options.json:
        options.json.write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n")
    if options.plot:
        from bench.plot import draw

        draw(rows, title, options.plot)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
