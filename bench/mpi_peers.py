"""What Open MPI's own all-reduce takes on emulated hosts: `measure`, and the program of its ranks.

Four ways: the ring and Rabenseifner's algorithm, each over all ranks at once (`coll_tuned`, with HAN off, which would
take the call before it); the hierarchical ring, the fastest that we found Open MPI to be with several ranks a host
(HAN's `simple`: a reduction to one rank a host, a ring of these, a broadcast on the host); and what Open MPI 5 does
when nothing is set: HAN in segments of 64 KiB, whose busiest link carried 2.5 times as much on four hosts.

Open MPI's ranks wait by asking again and again, so they use all the processor time they get: `cpu_share` says how much
of the machine they got, not how much work an algorithm is. Far below 1, somebody else was at work here.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.emulated_hosts import EmulatedHosts, mpirun_command, sent_from_here
from bench.rows import Row, bound_s
from jobs import local
from pipeline.errors import UserError

RING = {"coll_tuned_use_dynamic_rules": "1", "coll_tuned_allreduce_algorithm": "4"}
RABENSEIFNER = {"coll_tuned_use_dynamic_rules": "1", "coll_tuned_allreduce_algorithm": "6"}
PEERS: Mapping[str, Mapping[str, str]] = {
    "Open MPI ring": {"coll": "^han", **RING},
    "Open MPI Rabenseifner": {"coll": "^han", **RABENSEIFNER},
    "Open MPI hierarchical ring": {"coll_han_use_allreduce_algorithm": "simple", **RING},
    "Open MPI default": {},
}
"""Algorithms and the parameters that choose them."""

STARTING_S = 60
"""What mpirun may take beside the all-reduces, on a busy machine."""


def measure(
    hosts: EmulatedHosts,
    workers_per_node: int,
    sizes_bytes: Sequence[int],
    *,
    repeats: int = 5,
    budget_s: float = 60.0,
    in_place: bool = True,
    peers: Mapping[str, Mapping[str, str]] = PEERS,
) -> list[Row]:
    """Time Open MPI's all-reduce of float32 sums, by algorithm and size.

    budget_s: of one algorithm at one size. Repeats that would not fit are left out, but for the first; what takes ten
    times the budget is ended. in_place: whether the ranks' buffers are overwritten, as gradients are.

    Raises UserError where a world is not the one that was asked for, a sum is wrong, or the time is up.
    """
    rows = []
    for algorithm, mca in peers.items():
        words = ["--workers-per-node", str(workers_per_node), "--repeats", str(repeats), "--budget-s", str(budget_s)]
        words += ["--interface", hosts.interface, *(["--in-place"] if in_place else []), *map(str, sizes_bytes)]
        command = mpirun_command(hosts, workers_per_node, [sys.executable, "-m", "bench.mpi_peers", *words], mca=mca)
        for found in _run(command, algorithm, STARTING_S + 10 * budget_s * len(sizes_bytes)):
            size_bytes = found["size_bytes"]
            rows.append(
                Row(
                    algorithm=algorithm,
                    nodes=hosts.nodes,
                    workers_per_node=workers_per_node,
                    rate_bit_per_s=hosts.rate_bit_per_s,
                    delay_s=hosts.round_trip_s / 2,
                    dtype="fp32",
                    size_bytes=size_bytes,
                    repeats=found["repeats"],
                    time_s=found["time_s"],
                    bound_s=bound_s(hosts.nodes, size_bytes, hosts.rate_bit_per_s),
                    link_bytes=found["link_bytes"],
                    cpu_share=found["cpu_share"],
                )
            )
    return rows


def _run(command: Sequence[str], algorithm: str, limit_s: float) -> list[dict[str, Any]]:
    """Run the ranks; what the first one found, by size. limit_s: when they are ended."""
    environment = local.environment() | {"OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{algorithm} did not end in {limit_s:.0f} s; give smaller sizes or a higher rate") from error
    if done.returncode:
        raise UserError(f"{algorithm}: mpirun ended with {done.returncode}: {' '.join(done.stderr.split())[-500:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def main(arguments: list[str]) -> int:
    """One rank: time the all-reduces; the first one prints a line of JSON a size."""
    parser = argparse.ArgumentParser(description="A rank of bench.mpi_peers.measure")
    parser.add_argument("sizes_bytes", type=int, nargs="+")
    parser.add_argument("--workers-per-node", type=int, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--budget-s", type=float, default=60.0)
    parser.add_argument("--interface", required=True)
    parser.add_argument("--in-place", action="store_true")
    options = parser.parse_args(arguments)

    from mpi4py import MPI  # starts MPI: only a rank may import it

    world = MPI.COMM_WORLD
    on_host = world.Split_type(MPI.COMM_TYPE_SHARED).Get_size()
    if on_host != options.workers_per_node:
        print(f"{on_host} ranks on {os.uname().nodename}, not {options.workers_per_node}", file=sys.stderr)
        return 1
    for size_bytes in options.sizes_bytes:
        found = time_size(world, size_bytes, options)
        if world.Get_rank() == 0:
            print(json.dumps(found), flush=True)
        if not found["exact"]:
            print(f"a wrong sum of {size_bytes} bytes", file=sys.stderr)
            return 1
    return 0


def time_size(world: Any, size_bytes: int, options: argparse.Namespace) -> dict[str, Any]:
    """Time all-reduces of one size, after one that is not counted; every rank returns the same."""
    from mpi4py import MPI

    # Whole numbers, so that the sum is exact in any order.
    mine = (np.arange(size_bytes // 4) % 251).astype(np.float32) + np.float32(world.Get_rank())
    size = world.Get_size()
    expected = (np.arange(size_bytes // 4) % 251).astype(np.float32) * size + np.float32(size * (size - 1) // 2)
    result = mine.copy()

    def once() -> float:
        result[:] = mine
        source = MPI.IN_PLACE if options.in_place else mine
        world.Barrier()
        began = time.perf_counter()
        world.Allreduce(source, result, op=MPI.SUM)
        return time.perf_counter() - began

    warm_s = world.allreduce(once(), op=MPI.MAX)
    repeats = max(1, min(options.repeats, int(options.budget_s / max(warm_s, 1e-9))))
    world.Barrier()
    cpu_s, began, sent = _cpu_s(), time.perf_counter(), sent_from_here(options.interface)
    times_s = [once() for _ in range(repeats)]
    took_s, cpu_s, sent = time.perf_counter() - began, _cpu_s() - cpu_s, sent_from_here(options.interface) - sent
    slowest_s = np.empty(repeats)
    world.Allreduce(np.array(times_s), slowest_s, op=MPI.MAX)
    return {
        "size_bytes": result.nbytes,
        "repeats": repeats,
        "time_s": statistics.median(slowest_s.tolist()),
        "link_bytes": world.allreduce(sent, op=MPI.MAX) // repeats,
        "cpu_share": world.allreduce(cpu_s) / (world.allreduce(took_s, op=MPI.MAX) * (os.cpu_count() or 1)),
        "exact": world.allreduce(bool(np.array_equal(result, expected)), op=MPI.LAND),
    }


def _cpu_s() -> float:
    """Processor time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
