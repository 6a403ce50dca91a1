"""Who does the work: processes of this machine, or MPI's ranks where mpirun started more than one."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import cast

from pipeline.errors import UserError

PR_SET_PDEATHSIG = 1


def started_by_mpi(environment: Mapping[str, str]) -> bool:
    """Whether a launcher of MPI started this process as one of several."""
    promised = (environment.get(name, "") for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"))
    return any(size.isdigit() and int(size) > 1 for size in promised)


@contextlib.contextmanager
def processes(count: int | None) -> Iterator[tuple[Executor, int]]:
    """`count` processes, one a core by default, and their number. They end when this one ends, however that goes."""
    count = count or len(os.sched_getaffinity(0))
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _end_with_parent, (os.getpid(),))
    try:
        yield pool, count
    except BaseException as error:
        for child in multiprocessing.active_children():  # else they would end their shards first
            child.kill()
        if not isinstance(error, BrokenProcessPool):
            raise
        raise UserError(
            "a process was killed, perhaps because memory ran out; what is complete is kept, and the same command goes "
            "on from there, with fewer processes by PROCESSES="
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def ranks() -> Iterator[tuple[Executor, int] | None]:
    """MPI's ranks but the first, which deals the work, and their number; None on those that do it.

    They leave this context when all is done.
    """
    from mpi4py import MPI  # starts MPI: not where there is none
    from mpi4py.futures import MPICommExecutor

    with MPICommExecutor(MPI.COMM_WORLD, root=0) as found:
        pool = cast(Executor | None, found)
        try:
            yield None if pool is None else (pool, MPI.COMM_WORLD.Get_size() - 1)
        finally:
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent(parent: int) -> None:
    """Ask the kernel to end this process when the one that started it is dead; Ctrl-C is that one's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(1)
