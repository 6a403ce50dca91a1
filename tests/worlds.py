"""Worlds of real worker processes for tests: each runs a function with gloo between them, without MPI."""

import multiprocessing as mp
import socket
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

from pipeline import workers
from pipeline.config import Grid
from pipeline.config.site import SiteConfig
from pipeline.evaluate import OneProcess
from pipeline.workers import Place

TIMEOUT_S = 120


def run_world(size: int, function: Callable[..., Any], *arguments: Any, lost: Collection[int] = ()) -> list[Any]:
    """Run `function(rank, size, store, *arguments)` in `size` processes; what each returned, by rank.

    lost: ranks that will not return, because they die or stop; None stands for them. Raises AssertionError with the
    traceback of the first that failed.
    """
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["pipeline.trainer", "tests.worlds"])
    port = _free_port()
    pipes, processes = [], []
    for rank in range(size):
        parent, child = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(child, port, rank, size, function, arguments), daemon=True)
        process.start()
        child.close()
        pipes.append(parent)
        processes.append(process)
    try:
        ends = time.monotonic() + TIMEOUT_S
        outcomes = [
            ("done", None)
            if rank in lost
            else pipe.recv()
            if pipe.poll(max(0.0, ends - time.monotonic()))
            else ("failed", "timed out")
            for rank, pipe in enumerate(pipes)
        ]
    finally:
        for process in processes:
            process.kill()
            process.join()
    for rank, (state, value) in enumerate(outcomes):
        assert state == "done", f"rank {rank}: {value}"
    return [value for _, value in outcomes]


@contextmanager
def world_of_one(site: SiteConfig) -> Iterator[workers.Workers]:
    """The only worker of a world, in this process."""
    me = workers.connect(site, Grid(1, 1), dist.TCPStore("127.0.0.1", 0, 1, True), one_node(0, 1), 60.0)
    try:
        yield me
    finally:
        workers.stop(me.heartbeat)


def one_node(rank: int, size: int) -> Place:
    """The place of a worker where one node takes all."""
    return Place(rank, rank, 0, (tuple(range(size)),), OneProcess())


def _work(
    pipe: Connection, port: int, rank: int, size: int, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    torch.set_num_threads(1)
    try:
        store = dist.TCPStore("127.0.0.1", port, size, rank == 0, timeout=timedelta(seconds=60))
        pipe.send(("done", function(rank, size, store, *arguments)))
        pipe.poll(TIMEOUT_S)  # rank 0 holds the store until the parent has everything and ends us
    except BaseException:
        pipe.send(("failed", traceback.format_exc()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
