"""What workers spend on averaging: in all, and after the backward pass has handed over its last bucket."""

import threading
import time

import torch


class Clock:
    """On the host: a stretch lasts while at least one bucket is under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._began = self._total_s = self._exposed_s = 0.0
        self._last: float | None = None

    def handed_over(self, *, last: bool) -> None:
        """A bucket comes in; the `last` one of an update ends what the backward pass can hide."""
        with self._lock:
            now = time.perf_counter()
            if not self._under_way:
                self._began = now
            if last:
                self._last = now
            self._under_way += 1

    def averaged(self) -> None:
        """A bucket is done."""
        with self._lock:
            self._under_way -= 1
            if self._under_way:
                return
            now = time.perf_counter()
            self._total_s += now - self._began
            if self._last is not None:
                self._exposed_s += now - self._last
                self._last = None

    def take(self) -> tuple[float, float]:
        """(exposed, total) seconds since the last call."""
        with self._lock:
            taken = (self._exposed_s, self._total_s)
            self._exposed_s = self._total_s = 0.0
            return taken


class EventClock:
    """On a GPU: from pairs of events around every bucket."""

    def __init__(self) -> None:
        self._spans: list[tuple[torch.cuda.Event, torch.cuda.Event, bool]] = []

    def enqueued(self, ready: torch.cuda.Event, done: torch.cuda.Event, *, last: bool) -> None:
        """A bucket runs between these events."""
        self._spans.append((ready, done, last))

    def take(self) -> tuple[float, float]:
        """(exposed, total) seconds since the last call; waits for what is enqueued."""
        exposed_ms = total_ms = 0.0
        end: torch.cuda.Event | None = None
        for ready, done, last in self._spans:
            done.synchronize()
            begins_later = end is None or end.elapsed_time(ready) > 0
            total_ms += ready.elapsed_time(done) if begins_later or end is None else max(0.0, end.elapsed_time(done))
            exposed_ms += ready.elapsed_time(done) if last else 0.0
            end = done
        self._spans.clear()
        return exposed_ms / 1000, total_ms / 1000
