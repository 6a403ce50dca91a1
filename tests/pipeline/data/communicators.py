"""Workers of a node as threads, for what they do together without MPI."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """A Communicator whose ranks are threads."""

    def __init__(self, rank: int, size: int, shared: list[Any], barrier: threading.Barrier) -> None:
        self._rank, self._size, self._shared, self._barrier = rank, size, shared, barrier

    def Get_rank(self) -> int:
        return self._rank

    def Get_size(self) -> int:
        return self._size

    def bcast(self, obj: Any, root: int = 0) -> Any:
        return self.allgather(obj)[root]

    def allgather(self, sendobj: Any) -> list[Any]:
        self._shared[self._rank] = sendobj
        self._barrier.wait()
        found = list(self._shared)
        self._barrier.wait()
        return found

    def Barrier(self) -> None:
        self._barrier.wait()


def in_threads(size: int, work: Callable[[Threads], T]) -> list[T]:
    """What `work` returns for each of `size` ranks."""
    shared, barrier = [None] * size, threading.Barrier(size, timeout=30)
    found: dict[int, T] = {}

    def run(rank: int) -> None:
        found[rank] = work(Threads(rank, size, shared, barrier))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(size)]
