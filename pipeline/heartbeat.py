"""Every worker's heartbeat: what it is doing, told to all each second; and what is done when a collective fails.

A thread writes the worker's beat into the workers' store, over a connection of its own. When a collective fails
somewhere, the first worker that meets it reads everybody's beats, twice, finds out who is missing (diagnosis.py), and
leaves the line in the store. All workers look for it with each beat, and end with it: those that still wait in a
collective would learn of it only by their own time-out, and one that is blocked for ever never. A collective of MPI has
no time-out: the first rank listens for beats that stay away, and does the same where nothing failed (silence.py).
"""

import math
import os
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

import torch.distributed as dist

from pipeline.allreduce.contract import Activity, CommunicationError
from pipeline.diagnosis import Beat, diagnose, names, silent
from pipeline.errors import LostWorkerError
from pipeline.run_folder import EXIT_FAILED, Kind
from pipeline.silence import Silence

LINE, FAILURES = "line", "failures"
"""Keys in the store beside the ranks'."""


class Note(Protocol):
    """Writes a line down where the caller of the run finds it."""

    def __call__(self, line: str, kind: Kind) -> None: ...


class Watched(Protocol):
    """What says for itself what it is doing, as an all-reduce does."""

    def doing(self) -> str: ...

    def running_s(self) -> float: ...


class Heartbeat:
    """This worker's heartbeat, from its construction to `close`."""

    def __init__(
        self, store: dist.Store, rank: int, world_size: int, timeout_s: float, *, launched_rank: int | None = None
    ) -> None:
        """Start it; every worker does.

        timeout_s: how long a message between workers may take. launched_rank: what the launcher calls this worker.
        """
        self._rank, self._world_size, self._timeout_s = rank, world_size, timeout_s
        self.interval_s = min(1.0, timeout_s / 10)
        self.patience_s = min(10.0, max(2.0, timeout_s))
        """How long a worker may go without a beat while others wait for it."""
        self._limit_s = timeout_s + self.patience_s
        """How long one may go without a beat at all, or a collective run."""
        connection = store.clone()  # a store's connection serves one thread at a time
        connection.set_timeout(timedelta(seconds=self.patience_s))
        self._store = dist.PrefixStore("heartbeat", connection)
        self._silence = Silence(self._limit_s)
        self._beat = Beat(0, rank if launched_rank is None else launched_rank, socket.gethostname(), "", waiting=False)
        self._update: int | None = None
        self._mark, self._waiting = Activity("starting", time.monotonic()), False
        self._all_reduce: Watched | None = None
        self._note: Note | None = None
        self._head: Beat | None = None
        self._heard_s = time.monotonic()
        self._error: str | None = None
        self._ended = ""
        self._line: str | None = None
        self._changed = threading.Condition()
        if rank == 0:
            self._store.set(LINE, "")
        self._tell()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()
        threading.Thread(target=self._guard, name="guard of the heartbeat", daemon=True).start()

    def at(self, doing: str, *, update: int | None = None) -> None:
        """Say what this worker does from now on; update: the number of the one under way."""
        self._update = update
        self._mark = Activity(doing, time.monotonic())

    def follow(self, all_reduce: Watched) -> None:
        """Tell all-reduces too: `all_reduce` says which phase is running."""
        self._all_reduce = all_reduce

    @contextmanager
    def collective(self, name: str) -> Iterator[None]:
        """Name a collective while it runs; raises CommunicationError where it fails."""
        before, self._mark = self._mark, Activity(name, time.monotonic())
        self._waiting = True
        try:
            yield
        except CommunicationError:
            raise
        except RuntimeError as error:
            raise CommunicationError.in_phase(name, error) from error
        self._waiting = False
        self._mark = Activity(before.name, time.monotonic())

    @contextmanager
    def watching(self, note: Note) -> Iterator[None]:
        """End this worker in order when another is lost while the body runs: raises LostWorkerError with the line.

        Where the body does not come back, the process ends from here.
        """
        self._note = note
        try:
            yield
        except (CommunicationError, dist.DistError) as error:
            traceback.print_exc()
            raise LostWorkerError(self.explain(str(error)), guessed=self._line is None) from error
        except Exception as error:
            self.close(str(error))
            raise

    def explain(self, error: str) -> str:
        """Who is missing, after a collective failed here with the words `error`; takes some seconds."""
        if self._note:
            words = error.partition(": ")[2] or error
            self._note(f"{self._doing()[0]}: {words}", "effect")  # mpirun may end us before we know more
        with self._changed:
            self._error = error
            self._changed.notify_all()
            while self._line is None and self._has_store():
                self._changed.wait(self.interval_s)
        if self._line is None:
            return self._without_store()
        if self._rank == 0:
            time.sleep(2 * self.interval_s)  # it holds the store: the others shall read the line
        return self._line

    def close(self, reason: str = "it is done") -> None:
        """End the beat, and tell the others why this worker ends."""
        with self._changed:
            self._ended = (reason.splitlines() or [""])[0] or "an error without words"
            self._changed.notify_all()
        self._thread.join(self.patience_s)

    def _run(self) -> None:
        try:
            while not self._ended:
                self._tell()
                self._look()
                if self._line is None and (self._error is not None or self._is_stuck() or self._hears_nothing()):
                    self._find_out()
                if self._line is not None:
                    return self._leave(self._line)
                with self._changed:
                    if self._error is None and not self._ended:
                        self._changed.wait(self.interval_s)
            self._tell()
        except RuntimeError:  # the store does not answer
            with self._changed:
                self._heard_s = -math.inf
                self._changed.notify_all()

    def _guard(self) -> None:
        """Without a store a collective fails by itself; where none does, end this worker once it does nothing new.

        A thread of its own, since a store on a node that is cut off may hold the one that asks it for ever: torch
        waits without end for the answer to its own "I wait no longer".
        """
        mark, since_s = self._mark, time.monotonic()
        while not self._ended and self._line is None:
            if self._has_store() or self._mark is not mark:
                mark, since_s = self._mark, time.monotonic()
            elif self._is_stuck() or time.monotonic() > since_s + self._limit_s:
                return self._leave(self._without_store(), "guess")
            with self._changed:
                self._changed.wait(self.interval_s)
        return None

    def _has_store(self) -> bool:
        """Whether the store has answered of late."""
        return time.monotonic() < self._heard_s + self.patience_s

    def _hears_nothing(self) -> bool:
        """Whether a worker has been silent for so long that no collective with it can end; the first rank listens."""
        now_s = time.monotonic()
        return self._rank == 0 and self._silence.is_due(now_s) and self._silence.lasts(self._beats(), now_s)

    def _doing(self) -> tuple[str, bool]:
        """In words, and whether it is a collective."""
        running = ""
        with suppress(RuntimeError):  # a GPU that has failed
            running = self._all_reduce.doing() if self._all_reduce else ""
        doing, waiting = (running, True) if running else (str(self._mark), self._waiting)
        return f"{'' if self._update is None else f'update {self._update}, '}{doing}", waiting

    def _is_stuck(self) -> bool:
        """Whether an all-reduce should have failed by itself by now, as on a GPU it does not."""
        with suppress(RuntimeError):
            running_s = self._all_reduce.running_s() if self._all_reduce else 0.0
            return running_s > self._limit_s
        return False

    def _tell(self) -> None:
        doing, waiting = self._doing()
        self._beat = replace(self._beat, count=self._beat.count + 1, doing=doing, waiting=waiting, ended=self._ended)
        self._store.set(str(self._rank), self._beat.encode())

    def _look(self) -> None:
        """Learn what the store knows, and that it is there."""
        line, head = self._store.multi_get([LINE, "0"])
        self._heard_s = time.monotonic()
        self._head = Beat.decode(head)
        if line:
            self._answer(line.decode())

    def _answer(self, line: str) -> None:
        with self._changed:
            self._line = line
            self._changed.notify_all()

    def _find_out(self) -> None:
        """Diagnose, or wait for the worker that does."""
        first = self._store.add(FAILURES, 1) == 1
        self._tell()  # the last beat may be from before the failure
        mine, began_s = self._beat, time.monotonic()
        before = after = self._beats()
        while self._line is None and not self._ended:
            self._pause()
            after = self._beats()
            over = time.monotonic() > began_s + self.patience_s * (1 if first else 2)
            if self._line is None and (over or (first and not self._missing(before, after))):
                line = diagnose(before, after, mine, self._error or "no message within the time-out")
                self._store.set(LINE, line)
                self._answer(line)

    def _missing(self, before: dict[int, Beat], after: dict[int, Beat]) -> bool:
        return any(beat.rank != self._beat.rank for beat in silent(before, after))

    def _pause(self) -> None:
        """A beat of one's own between two looks at the others'."""
        time.sleep(self.interval_s)
        self._tell()
        self._look()

    def _beats(self) -> dict[int, Beat]:
        """Everybody's last beat, by rank."""
        ranks = [str(rank) for rank in range(self._world_size)]
        if self._store.check(ranks):
            return {rank: Beat.decode(text) for rank, text in enumerate(self._store.multi_get(ranks))}
        absent = [rank for rank in ranks if not self._store.check([rank])]
        found = {int(rank): Beat.decode(self._store.get(rank)) for rank in ranks if rank not in absent}
        return found | {int(rank): Beat(0, int(rank), "an unknown node", "start", waiting=False) for rank in absent}

    def _without_store(self) -> str:
        """The line where the first rank, which holds the store, is the one that is missing."""
        here = f"rank {self._beat.rank} was in {self._doing()[0]}"
        if self._head is None:
            return f"the first rank does not answer; {here}"
        return f"{names([self._head])} does not answer: last heard of in {self._head.doing}; {here}"

    def _leave(self, line: str, kind: Kind = "fault") -> None:
        """Let the main thread end with the line; end the process where it is blocked for ever."""
        if self._note is None:
            return
        time.sleep(self.patience_s)
        if not self._ended:
            self._note(line, kind)
            os._exit(EXIT_FAILED)
