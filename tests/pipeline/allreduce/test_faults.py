"""A worker is killed or stopped amid a stream of all-reduces: every algorithm ends on the others, who name it."""

import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist

from pipeline.allreduce.contract import AllReduce, CommunicationError
from pipeline.allreduce.hook import SCHEMES, Options, build
from pipeline.heartbeat import Heartbeat
from tests.pipeline.allreduce.layouts import join
from tests.worlds import run_world

TIMEOUT_S = 2.0
ENDS_S = 60.0
"""By when a worker must have ended: the time-out, its diagnosis, and what a busy machine adds."""


@dataclass(frozen=True)
class Failed:
    """What a worker that was left met."""

    errors: dict[str, str]
    """Of every algorithm."""
    phases: dict[str, set[str]]
    """The names of every algorithm's phases."""
    line: str
    """Who was missing."""
    took_s: float


class All:
    """Several all-reduces, as one to watch."""

    def __init__(self, all_reduces: Mapping[str, AllReduce]) -> None:
        self._all_reduces = all_reduces

    def doing(self) -> str:
        return next((doing for one in list(self._all_reduces.values()) if (doing := one.doing())), "")

    def running_s(self) -> float:
        return max((one.running_s() for one in list(self._all_reduces.values())), default=0.0)


def stream(rank: int, size: int, store: dist.Store, victim: int, number: signal.Signals, pipelined: bool) -> Failed:
    """Average buckets with all algorithms at once, each on its own communicators, until each has failed."""
    heartbeat = Heartbeat(store, rank, size, TIMEOUT_S, launched_rank=10 + rank)
    options = Options(torch.float16, chunk_bytes=4096, pipelined=pipelined, ring_from_bytes=8192)
    left = {
        name: build(name, join(rank, store, (2, 2), timeout_s=TIMEOUT_S), options, torch.device("cpu"))
        for name in SCHEMES
    }
    phases = {name: {phase.name for lane in left[name].scheme.lanes for phase in lane.phases} for name in left}  # type: ignore[attr-defined]
    heartbeat.follow(All(left))
    if rank == victim:
        threading.Timer(1.0, os.kill, (os.getpid(), number)).start()
    began_s = time.monotonic()
    errors: dict[str, str] = {}
    line = ""
    while left:
        futures = {}
        for name, all_reduce in left.items():
            bucket = torch.ones(20_003)
            try:
                futures[name] = all_reduce(bucket)
            except CommunicationError as error:
                errors[name] = str(error)
        for name, future in futures.items():
            try:
                future.wait()
            except CommunicationError as error:
                errors[name] = str(error)
        line = line or (heartbeat.explain(next(iter(errors.values()))) if errors else "")
        for name in errors:
            left.pop(name, None)
    return Failed(errors, phases, line, time.monotonic() - began_s)


@pytest.mark.parametrize(("victim", "pipelined"), [(2, True), (0, False)], ids=["another worker", "the first worker"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_others_end_and_the_lost_worker_is_named(number: signal.Signals, victim: int, pipelined: bool) -> None:
    outcomes: list[Failed | None] = run_world(4, stream, victim, number, pipelined, lost=[victim])
    left = [outcome for outcome in outcomes if outcome is not None]
    assert len(left) == 3
    for outcome in left:
        assert set(outcome.errors) == set(SCHEMES)
        for name, error in outcome.errors.items():
            assert error.split(":")[0] in outcome.phases[name]

        assert outcome.line.startswith(
            f"rank {10 + victim} (on {os.uname().nodename}) does not answer: last heard of in "
        )
        assert any(phase in outcome.line for names in outcome.phases.values() for phase in names)
        assert outcome.took_s < ENDS_S
