"""Partitioned placement: every node holds what its workers need in an epoch, and gets the next epoch's meanwhile.

A node's memory has two slots. While the workers read one, the exchange fills the other; a slot is overwritten when all
workers of the node have left it. Shards are staged in neighbouring runs, a node its own, and the first exchange brings
the first epoch about.
"""

import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.data import holdings
from pipeline.data.epochs import Epochs
from pipeline.data.exchange import Exchange, ExchangeError
from pipeline.data.holdings import Holding, Part
from pipeline.data.memory import SampleMemory
from pipeline.data.segment import Segment
from pipeline.data.shards import Index

ASKED_EVERY_S = 0.005
SLOTS = 2
READY, BEGUN, LEFT = 0, 1, 2
"""The segment's numbers: holdings that are complete, rounds of the exchange that have begun, and from LEFT on for each
worker of the node how many holdings it has done with."""
DONE = 2**62
"""Of a worker that reads no more."""


@dataclass(frozen=True, eq=False)  # hashed by identity, for its cache
class Schedule:
    """What moves when: the same on every node."""

    epochs: Epochs
    size: NDArray[np.int64]
    """Bytes of every training sample."""
    bases: tuple[int, ...]
    """The epochs of this attempt that begin with an exchange, in order."""
    rounds: int
    """Of an exchange."""

    @lru_cache(maxsize=4)  # noqa: B019 - one schedule a process
    def holding(self, number: int) -> Holding:
        """The holding of the base epoch `number`."""
        return holdings.needed(self.epochs, self.bases[number])

    @lru_cache(maxsize=4)  # noqa: B019 - a node's first worker asks twice: to receive, and to read
    def arrivals(self, number: int, node: int) -> Part:
        """What a node receives for holding `number`, in the order of its memory."""
        words = (node, self.rounds, self.size, self.epochs.nodes)
        return holdings.arrivals(self.before(number), self.holding(number), *words)

    def departures(self, number: int, node: int) -> Part:
        """What a node sends for holding `number`."""
        words = (node, self.rounds, self.size, self.epochs.nodes)
        return holdings.departures(self.before(number), self.holding(number), *words)

    def before(self, number: int) -> NDArray[np.int64]:
        """Who holds each sample when holding `number` is to come about."""
        return self.holding(number - 1).holder if number else holdings.staged(self.size, self.epochs.nodes)


@dataclass(frozen=True)
class Room:
    """A node's memory for training samples."""

    segment: Segment
    slots: Sequence[slice]
    """Of the segment's bytes: where holding 0, 2, 4, …, and where 1, 3, 5, … lie. What is staged lies in the second."""
    kept: NDArray[np.int64]
    """Where each sample lies that is always there, ABSENT for all others; shape (samples,)."""
    workers: int
    """Of the node."""
    patience_s: float
    """How long the exchange may stand still while a worker waits for it."""

    def of(self, number: int) -> NDArray[np.uint8]:
        """The bytes of holding `number`."""
        return self.segment.bytes[self.slots[number % SLOTS]]


class Partitioned:
    """A Source. Every worker of a node has one; that of the first worker does the node's exchanges in a thread."""

    def __init__(
        self, index: Index, schedule: Schedule, room: Room, *, node: int, local_rank: int, exchanger: "Exchanger | None"
    ) -> None:
        self.index = index
        self._schedule, self._room, self._node, self._local_rank = schedule, room, node, local_rank
        self._exchanger = exchanger
        self._given_up = threading.Event()
        self._number = -1
        self._memory: SampleMemory | None = None

    def epoch(self, epoch: int) -> SampleMemory:
        """As Source's. Raises ExchangeError where the exchange stands still, or the wait is given up."""
        number = self._schedule.bases.index(self._schedule.epochs.base(epoch))
        if number == self._number and self._memory is not None:
            return self._memory
        self._memory = None
        self._room.segment.say(LEFT + self._local_rank, number)
        wait_for(number, self._room, self._given_up)
        memory = placed(self.index, self._schedule, self._room, number, self._node)
        self._number, self._memory = number, memory
        return memory

    def check(self) -> None:
        """As Source's. Raises RuntimeError on the node's first worker where its exchange has failed."""
        if self._exchanger is not None and self._exchanger.fault:
            raise RuntimeError(f"the exchange of samples failed on this node: {self._exchanger.fault}")

    def give_up(self) -> None:
        """As Source's."""
        self._given_up.set()

    def close(self) -> None:
        """As Source's. A round that has begun on any node is finished by all.

        Raises RuntimeError where it cannot be, because a node's exchange has failed.
        """
        self._room.segment.say(LEFT + self._local_rank, DONE)
        if self._exchanger is not None:
            self._exchanger.stop()


def wait_for(number: int, room: Room, given_up: threading.Event) -> None:
    """Until holding `number` is complete. Raises ExchangeError where it stands still, or the wait is given up."""
    segment, begun, since_s = room.segment, -1, time.monotonic()
    while segment.hear(READY)[0] <= number:
        now_begun = segment.hear(BEGUN)[0]
        if now_begun != begun:
            begun, since_s = now_begun, time.monotonic()
        if given_up.is_set():
            raise ExchangeError("the wait for samples was given up")
        if time.monotonic() - since_s > room.patience_s:
            raise ExchangeError(f"the exchange of samples has stood still for {room.patience_s:g} s")
        time.sleep(ASKED_EVERY_S)


def placed(index: Index, schedule: Schedule, room: Room, number: int, node: int) -> SampleMemory:
    """The samples of a holding on a node, once they are there."""
    arrive = schedule.arrivals(number, node)
    sizes = schedule.size[arrive.samples]
    starts = room.kept.copy()
    starts[arrive.samples] = room.slots[number % SLOTS].start + np.cumsum(sizes) - sizes
    return SampleMemory(index, room.segment.bytes, starts)


@dataclass
class Stopping:
    """How far the exchanges of all nodes go on once a stop is asked for."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    started: int = 0
    """Rounds that this node has begun."""
    limit: int | None = None
    """Rounds after which no more may begin; None: no stop is asked for."""
    agreed: bool = False
    """Whether the limit is that of all nodes."""


class Exchanger:
    """A node's exchanges, one after the other, in a thread."""

    def __init__(
        self, index: Index, schedule: Schedule, room: Room, staged: SampleMemory, leaders: Any, largest: int
    ) -> None:
        """staged: what this node read from the shards. leaders: an MPI communicator of the nodes' first workers, in
        order. largest: bytes that a node sends at most in a round."""
        self._index, self._schedule, self._room, self._held = index, schedule, room, staged
        self._node = leaders.Get_rank()
        self._control = leaders.Dup()
        self._exchange = Exchange(leaders.Dup(), largest)
        self._stopping = Stopping()
        self.fault = ""
        """Why it has failed; empty: it has not."""
        self._thread = threading.Thread(target=self._work, name="exchange", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let all nodes end after the same round."""
        stopping = self._stopping
        with stopping.changed:
            stopping.limit = stopping.started
        told = self._control.allgather((stopping.started, self.fault))
        faults = [fault for _, fault in told if fault]
        if faults:
            raise RuntimeError(f"the exchange of samples failed on another node or here: {faults[0]}")
        furthest = max(started for started, _ in told)
        with stopping.changed:
            stopping.limit, stopping.agreed = furthest, True
            stopping.changed.notify()
        self._thread.join()

    def _work(self) -> None:
        segment = self._room.segment
        try:
            for number in range(len(self._schedule.bases)):
                self._wait_for_room(number)
                if not self._bring_about(number):
                    return
                segment.say(READY, number + 1)
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"
            traceback.print_exc()

    def _wait_for_room(self, number: int) -> None:
        """Wait until no worker reads what lies where holding `number` will."""
        while number >= SLOTS and min(self._room.segment.hear(LEFT, self._room.workers)) < number - 1:
            time.sleep(ASKED_EVERY_S)

    def _bring_about(self, number: int) -> bool:
        """Exchange what holding `number` asks for; False where a stop ended it."""
        schedule = self._schedule
        leave, arrive = schedule.departures(number, self._node), schedule.arrivals(number, self._node)
        if not self._exchange.move(leave, arrive, self._held, self._room.of(number), self._may_start):
            return False
        self._held = placed(self._index, schedule, self._room, number, self._node)
        return True

    def _may_start(self) -> bool:
        """Whether another round may begin; once a stop is asked for, that is known when all nodes have said how far
        they are."""
        stopping = self._stopping
        with stopping.changed:
            stopping.changed.wait_for(
                lambda: stopping.limit is None or stopping.started < stopping.limit or stopping.agreed
            )
            if stopping.limit is not None and stopping.started >= stopping.limit:
                return False
            stopping.started += 1
            self._room.segment.say(BEGUN, stopping.started)
            return True
