"""The engine that all-reduces run on: buckets are averaged one after another, in the order they were handed over.

On CPUs a thread runs the phases, so that the backward pass goes on meanwhile. On GPUs the phases are enqueued on one
stream, with events between it and the backward pass's stream and no host synchronisation. One order on one thread or
stream is what keeps communicators from waiting for each other for ever.
"""

import queue
import threading
import time
from collections.abc import Callable

import torch
from torch import Tensor

from pipeline.profiler import phase

Average = Callable[[Tensor], None]
"""Averages a bucket in place, blocking (thread) or enqueueing (stream)."""


class ThreadEngine:
    """Runs an `Average` in a thread and completes a future when it is done."""

    def __init__(self, average: Average, name: str) -> None:
        self._average = average
        self._jobs: queue.SimpleQueue[tuple[Tensor, bool, torch.futures.Future[Tensor]] | None] = queue.SimpleQueue()
        self._exposed_s = 0.0
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def __call__(self, bucket: Tensor, *, last: bool = True) -> torch.futures.Future[Tensor]:
        future: torch.futures.Future[Tensor] = torch.futures.Future()
        self._last_handed_over = time.perf_counter()
        self._jobs.put((bucket, last, future))
        return future

    def exposed_s(self) -> float:
        exposed, self._exposed_s = self._exposed_s, 0.0
        return exposed

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            bucket, last, future = job
            try:
                with torch.inference_mode(), phase("all-reduce"):
                    self._average(bucket)
            except Exception as error:
                future.set_exception(error)  # type: ignore[arg-type]
                continue
            if last:
                self._exposed_s += time.perf_counter() - self._last_handed_over
            future.set_result(bucket)


class StreamEngine:
    """Enqueues an `Average` on a CUDA stream of its own; the future carries the event."""

    def __init__(self, average: Average, device: torch.device) -> None:
        self._average = average
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._exposed: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def __call__(self, bucket: Tensor, *, last: bool = True) -> torch.futures.Future[Tensor]:
        ready = torch.cuda.current_stream(self._device).record_event(torch.cuda.Event(enable_timing=True))
        self._stream.wait_event(ready)
        future: torch.futures.Future[Tensor] = torch.futures.Future(devices=[self._device])
        with torch.cuda.stream(self._stream), phase("all-reduce"):
            bucket.record_stream(self._stream)
            self._average(bucket)
            if last:
                done = self._stream.record_event(torch.cuda.Event(enable_timing=True))
                self._exposed.append((ready, done))
            future.set_result(bucket)
        return future

    def exposed_s(self) -> float:
        if self._exposed:
            self._exposed[-1][1].synchronize()
        exposed = sum(ready.elapsed_time(done) for ready, done in self._exposed) / 1000
        self._exposed.clear()
        return exposed

    def close(self) -> None:
        torch.cuda.synchronize(self._device)
