"""The run for TensorBoard: events/, written by the first rank at agreements.

The records are made with tensorboard's own protocol buffer and record writer, one write an agreement. Its SummaryWriter
has a queue and a thread, which would take the processor from a worker in the middle of an update, and it cannot drop
points. Torch-free; imported where run.tensorboard asks for it.
"""

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from pipeline.metrics import LoopTime, UpdateLine, ValidationLine

FILE_VERSION = "brain.Event:2"
"""What TensorBoard expects of a file's first record."""


class EventFile:
    """A file of events in a folder; points beyond `update`, of an attempt that died, are dropped.

    Steps are updates. The tags: update/{loss,training_error,lr,momentum,batch,images_per_s}, validation/top1,
    loop_share/{data,compute,communication,other}.
    """

    def __init__(self, folder: Path, update: int) -> None:
        folder.mkdir(exist_ok=True)
        old = sorted(folder.glob("events.out.tfevents.*"))
        read = (event for path in old for event in read_events(path) if event.HasField("summary"))
        kept = [event for event in read if event.step <= update]
        name = f"events.out.tfevents.{time.time_ns():020d}.{socket.gethostname()}"
        self._file = (folder / f".{name}").open("wb")
        self._write([Event(wall_time=time.time(), file_version=FILE_VERSION), *kept])
        (folder / f".{name}").replace(folder / name)
        for path in old:
            path.unlink()

    def updates(self, lines: Sequence[UpdateLine], spent: LoopTime) -> None:
        """Add the updates since the last agreement, and where their time went."""
        if not lines:
            return
        now = time.time()
        events = [_scalars(line.update, now - (lines[-1].time_s - line.time_s), _of(line)) for line in lines]
        shares = {f"loop_share/{name}": share for name, share in spent.shares().items()}
        self._write([*events, _scalars(lines[-1].update, now, shares)])

    def validated(self, line: ValidationLine) -> None:
        """Add a validation."""
        self._write([_scalars(line.update, time.time(), {"validation/top1": line.top1})])

    def close(self) -> None:
        self._file.close()

    def _write(self, events: Sequence[Event]) -> None:
        """One write to the disk for all of them."""
        buffer = BytesIO()
        records = RecordWriter(buffer)
        for event in events:
            records.write(event.SerializeToString())
        self._file.write(buffer.getvalue())
        self._file.flush()


def read_events(path: Path) -> Iterator[Event]:
    """The records of a file of events, oldest first; a last one that is not whole is left out."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader  # only a resumed run reads

    for record in RawEventFileLoader(os.fspath(path)).Load():
        yield Event.FromString(record)


def _of(line: UpdateLine) -> dict[str, float]:
    return {
        "update/loss": line.loss,
        "update/training_error": line.training_error,
        "update/lr": line.lr,
        "update/momentum": line.momentum,
        "update/batch": line.batch,
        "update/images_per_s": line.batch / line.update_s,
    }


def _scalars(step: int, wall_time_s: float, values: Mapping[str, float]) -> Event:
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
    return Event(step=step, wall_time=wall_time_s, summary=summary)
