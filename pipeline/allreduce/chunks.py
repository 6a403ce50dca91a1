"""The chunk engines that all all-reduces run on: they cut buckets into chunks and send them through a scheme's phases.

On CPUs (gloo) a thread runs each phase, so that the backward pass goes on meanwhile, and one chunk's phase runs while
the chunk before is in the next. On GPUs (NCCL) the phases are enqueued on a stream each, with events between them and
the backward pass's stream and no host synchronisation, in one order on every worker: along the diagonals of
(chunk, phase). One order is what keeps communicators from waiting for each other for ever.
"""

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.allreduce.clock import Clock, EventClock
from pipeline.allreduce.contract import Activity, CommunicationError
from pipeline.allreduce.scheme import Scheme
from pipeline.profiler import phase as traced


@dataclass(frozen=True)
class Chunk:
    """A span of a bucket, and where it lies in the engine's working memory."""

    lane: int
    first: int
    last: int
    """The element after the span's last."""
    at: int
    """Its first element in the working memory; without padding the same as `first`."""
    length: int
    """Elements there, padding included."""


def cut(scheme: Scheme, size: int, chunk_elements: int) -> list[Chunk]:
    """The chunks of a bucket of `size` elements: of equal size within one element (within `scheme.multiple`), each at
    most `chunk_elements` long where the padding allows it; the lanes' by turns.
    """
    of_lanes: list[list[Chunk]] = []
    at = 0
    for index, lane in enumerate(scheme.lanes):
        begin, end = lane.part(size)
        count = -(-(end - begin) // max(1, chunk_elements))
        chunks = []
        for number in range(count):
            first, last = (begin + (end - begin) * (number + step) // count for step in (0, 1))
            length = -(-(last - first) // scheme.multiple) * scheme.multiple
            chunks.append(Chunk(index, first, last, at if scheme.multiple > 1 else first, length))
            at += length
        of_lanes.append(chunks)
    longest = max(map(len, of_lanes))
    return [chunks[number] for number in range(longest) for chunks in of_lanes if number < len(chunks)]


def load(bucket: Tensor, work: Tensor, chunk: Chunk, prescale: float) -> None:
    """Bring a chunk into the working memory: scaled in fp32, then rounded to the wire's type, then padded."""
    span = bucket[chunk.first : chunk.last]
    target = work[chunk.at : chunk.at + len(span)]
    if prescale != 1:
        target.copy_(span.to(torch.float32) * prescale)
    elif target.data_ptr() != span.data_ptr():
        target.copy_(span)
    work[chunk.at + len(span) : chunk.at + chunk.length] = 0


def store(bucket: Tensor, work: Tensor, chunk: Chunk) -> None:
    """Bring an averaged chunk back."""
    span = bucket[chunk.first : chunk.last]
    source = work[chunk.at : chunk.at + len(span)]
    if source.data_ptr() != span.data_ptr():
        span.copy_(source)


class _Averaging:
    """One bucket under way on threads."""

    def __init__(self, bucket: Tensor, work: Tensor, chunks: int) -> None:
        self.bucket, self.work = bucket, work
        devices = [bucket.device] if bucket.is_cuda else None
        self.future: torch.futures.Future[Tensor] = torch.futures.Future(devices=devices)  # type: ignore[arg-type]
        self.ready = torch.cuda.current_stream(bucket.device).record_event() if bucket.is_cuda else None
        self._left = chunks
        self._lock = threading.Lock()

    def is_last_chunk(self) -> bool:
        """Called once a chunk that is through."""
        with self._lock:
            self._left -= 1
            return self._left == 0

    def fail(self, error: CommunicationError) -> None:
        """Called for every chunk that is not through; two phases may fail at a time."""
        with self._lock:
            if not self.future.done():
                self.future.set_exception(error)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Job:
    averaging: _Averaging
    chunk: Chunk
    phase: int


class ThreadEngine:
    """Runs a scheme's phases on threads, and completes a future when all chunks of a bucket are through.

    pipelined: a thread a phase. Otherwise one thread runs all, chunk by chunk: quicker where messages take no time.
    Tensors of a GPU are averaged in the host's memory.

    A lane has as many chunks under way as it has phases. With more, some columns of a torus would run far ahead of
    others that share their node's link, and at the end the last one alone could not keep the link busy.
    """

    def __init__(self, scheme: Scheme, wire: torch.dtype, *, chunk_bytes: int, pipelined: bool, name: str) -> None:
        self.scheme, self.wire, self.chunk_bytes = scheme, wire, chunk_bytes
        self._spare: dict[int, list[Tensor]] = defaultdict(list)
        self._clock = Clock()
        self.failure: CommunicationError | None = None
        self._doing: dict[int, Activity] = {}
        self._failed: Activity | None = None
        stations = 0
        self._stations: list[list[int]] = []  # by lane and phase
        for lane in scheme.lanes:
            self._stations.append([stations + (index if pipelined else 0) for index in range(len(lane.phases))])
            stations += len(lane.phases) if pipelined else 0
        self._queues = [queue.SimpleQueue[_Job | None]() for _ in range(max(1, stations))]
        self._windows = [threading.Semaphore(len(lane.phases)) for lane in scheme.lanes]
        self._threads = [
            threading.Thread(target=self._work, args=(station,), name=f"{name}-{station}", daemon=True)
            for station in range(len(self._queues))
        ]
        for thread in self._threads:
            thread.start()

    def __call__(self, bucket: Tensor, *, last: bool = True) -> torch.futures.Future[Tensor]:
        if self.failure is not None:
            raise self.failure
        chunks = cut(self.scheme, len(bucket), max(1, self.chunk_bytes // self.wire.itemsize))
        averaging = _Averaging(bucket, self._memory(bucket, chunks), len(chunks))
        self._clock.handed_over(last=last)
        for chunk in chunks:
            self._put(_Job(averaging, chunk, 0))
        if not chunks:
            self._finish(averaging)
        return averaging.future

    def take_times(self) -> tuple[float, float]:
        return self._clock.take()

    def doing(self) -> str:
        return str(self._longest() or "")

    def running_s(self) -> float:
        longest = self._longest()
        return longest.seconds() if longest else 0.0

    def close(self) -> None:
        for entry in self._queues:
            entry.put(None)
        for thread in self._threads:
            thread.join()

    def _longest(self) -> Activity | None:
        """The phase that failed, or that has been running for the longest."""
        running = self._doing.copy().values()
        return self._failed or min(running, key=lambda activity: activity.since_s, default=None)

    def _memory(self, bucket: Tensor, chunks: Sequence[Chunk]) -> Tensor:
        """Working memory: the bucket itself where it is of the wire's type, else what an earlier one has left."""
        size = max((chunk.at + chunk.length for chunk in chunks), default=0)
        if bucket.dtype == self.wire and not bucket.is_cuda and size <= len(bucket):
            return bucket
        try:
            return self._spare[size].pop()
        except IndexError:
            return torch.empty(size, dtype=self.wire)

    def _put(self, job: _Job) -> None:
        self._queues[self._stations[job.chunk.lane][job.phase]].put(job)

    def _work(self, station: int) -> None:
        while (entry := self._queues[station].get()) is not None:
            job: _Job | None = entry
            if entry.phase == 0:
                self._windows[entry.chunk.lane].acquire()
            while job is not None and self._stations[job.chunk.lane][job.phase] == station:
                job = self._run(job, station)
            if job is not None:
                self._put(job)

    def _run(self, job: _Job, station: int) -> _Job | None:
        """Run one phase of one chunk; what is next for it."""
        averaging, chunk = job.averaging, job.chunk
        phases = self.scheme.lanes[chunk.lane].phases
        try:
            if self.failure is not None:
                raise self.failure
            self._doing[station] = Activity(phases[job.phase].name, time.monotonic())
            with torch.inference_mode(), traced(f"all-reduce: {phases[job.phase].name}"):
                if job.phase == 0:
                    if averaging.ready is not None:
                        averaging.ready.synchronize()
                    load(averaging.bucket, averaging.work, chunk, self.scheme.prescale)
                phases[job.phase].run(averaging.work[chunk.at : chunk.at + chunk.length])
                if job.phase < len(phases) - 1:
                    return _Job(averaging, chunk, job.phase + 1)
                store(averaging.bucket, averaging.work, chunk)
        except Exception as error:
            self._fail(averaging, phases[job.phase].name, error, station)
            self._windows[chunk.lane].release()
            return None
        finally:
            self._doing.pop(station, None)
        self._windows[chunk.lane].release()
        if averaging.is_last_chunk():
            self._finish(averaging)
        return None

    def _finish(self, averaging: _Averaging) -> None:
        if averaging.work is not averaging.bucket:
            self._spare[len(averaging.work)].append(averaging.work)
        self._clock.averaged()
        averaging.future.set_result(averaging.bucket)

    def _fail(self, averaging: _Averaging, phase: str, error: Exception, station: int) -> None:
        """Tell whoever waits for this bucket. The first failure is the cause; none runs after it."""
        if self.failure is None:
            self._failed = self._doing.get(station)
            self.failure = CommunicationError.in_phase(phase, error)
        averaging.fail(self.failure)


class StreamEngine:
    """Enqueues a scheme's phases on CUDA streams, one a phase of a lane; the future carries the event of the last."""

    def __init__(self, scheme: Scheme, wire: torch.dtype, *, chunk_bytes: int, device: torch.device) -> None:
        self.scheme, self.wire, self.chunk_bytes = scheme, wire, chunk_bytes
        self._device = device
        self._streams = [[torch.cuda.Stream(device) for _ in lane.phases] for lane in scheme.lanes]
        self._done = torch.cuda.Stream(device)
        self._clock = EventClock()
        self._under_way: tuple[torch.cuda.Event, Activity] | None = None

    def __call__(self, bucket: Tensor, *, last: bool = True) -> torch.futures.Future[Tensor]:
        ready = torch.cuda.current_stream(self._device).record_event(torch.cuda.Event(enable_timing=True))
        chunks = cut(self.scheme, len(bucket), max(1, self.chunk_bytes // self.wire.itemsize))
        future: torch.futures.Future[Tensor] = torch.futures.Future(devices=[self._device])
        with torch.cuda.stream(self._done):
            size = max((chunk.at + chunk.length for chunk in chunks), default=0)
            work = torch.empty(size, dtype=self.wire, device=self._device)
        bucket.record_stream(self._done)
        allocated = self._done.record_event()
        deepest = max(len(streams) for streams in self._streams)
        events = dict.fromkeys(range(len(chunks)), ready)
        for diagonal in range(len(chunks) + deepest - 1):
            for number in range(max(0, diagonal - deepest + 1), min(diagonal + 1, len(chunks))):
                if diagonal - number < len(self._streams[chunks[number].lane]):
                    events[number] = self._enqueue(
                        bucket, work, chunks[number], diagonal - number, (events[number], allocated)
                    )
        with torch.cuda.stream(self._done):
            for event in events.values():
                self._done.wait_event(event)
            done = self._done.record_event(torch.cuda.Event(enable_timing=True))
            self._clock.enqueued(ready, done, last=last)
            self._under_way = (done, Activity("all-reduce", time.monotonic()))
            future.set_result(bucket)
        return future

    def take_times(self) -> tuple[float, float]:
        return self._clock.take()

    @property
    def failure(self) -> None:
        """None: the backend or the heartbeat ends this process."""

    def doing(self) -> str:
        return str(self._running() or "")

    def running_s(self) -> float:
        running = self._running()
        return running.seconds() if running else 0.0

    def close(self) -> None:
        torch.cuda.synchronize(self._device)

    def _running(self) -> Activity | None:
        """The newest all-reduce, where the GPU is not through with it."""
        under_way = self._under_way
        return None if under_way is None or under_way[0].query() else under_way[1]

    def _enqueue(
        self, bucket: Tensor, work: Tensor, chunk: Chunk, index: int, after: Sequence[torch.cuda.Event]
    ) -> torch.cuda.Event:
        """Enqueue one phase of one chunk after these events; its own."""
        phases, stream = self.scheme.lanes[chunk.lane].phases, self._streams[chunk.lane][index]
        with torch.cuda.stream(stream), traced(f"all-reduce: {phases[index].name}"):
            for event in after:
                stream.wait_event(event)
            if index == 0:
                load(bucket, work, chunk, self.scheme.prescale)
            phases[index].run(work[chunk.at : chunk.at + chunk.length])
            if index == len(phases) - 1:
                store(bucket, work, chunk)
            return stream.record_event()
