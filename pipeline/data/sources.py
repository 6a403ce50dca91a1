"""From indexes to samples in memory: the placement is chosen, the shards are staged, the exchange begins."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config.schema import DataConfig
from pipeline.data import holdings, order, placement
from pipeline.data.epochs import Epochs
from pipeline.data.exchange import IN_FLIGHT, MOST_BYTES
from pipeline.data.memory import SampleMemory, Source
from pipeline.data.partitioned import LEFT, SLOTS, Exchanger, Partitioned, Room, Schedule
from pipeline.data.placement import gigabytes
from pipeline.data.segment import FOLDER, Communicator, share
from pipeline.data.shards import Index
from pipeline.data.staging import Piece, Progress, bring_in, in_a_row
from pipeline.errors import UserError

MOST_COUNTS = 2**22
"""Rounds times nodes: what an exchange counts. Where data.exchange_round_bytes asks for more, rounds are larger."""


@dataclass(frozen=True)
class Site:
    """A worker among those that the data is brought to."""

    world: Any
    """All workers, an MPI communicator; OneProcess where there is one."""
    node_workers: Communicator
    node: int
    """In the order of Epochs.layout."""
    folder: Path = FOLDER
    meminfo: Path = placement.MEMORY
    patience_s: float = 600.0
    """How long an exchange may stand still while a worker waits for it."""


@dataclass(frozen=True)
class Limits:
    """What partitioned placement takes at most on any node, bytes."""

    slot: int
    send: int
    """In a round of the exchange."""


def bring(
    config: DataConfig,
    epochs: Epochs,
    span: range,
    indexes: tuple[Index, Index],
    site: Site,
    *,
    told: Callable[[str], None] = lambda _: None,
    progress: Progress = lambda *_: None,
) -> tuple[Source, SampleMemory]:
    """The training samples and this node's validation images, in memory; every worker calls it with the same arguments.

    span: the epochs that this attempt reads. indexes: of the training samples and of all validation images. told: given
    a line on the placement. Raises UserError, the same on every worker, where memory does not suffice or a shard cannot
    be read.
    """
    train, validation = indexes
    node_of_image = _node_of_validation_image(epochs, len(validation))
    of_validation = int(holdings.total(node_of_image, validation.size, epochs.nodes).max())
    kept = np.arange(min(order.STAND_INS, len(train)) if config.on_bad_sample == "replace" else 0)
    whole = int(train.size.sum())
    needs = {
        "replicated": (
            whole + of_validation,
            f"{gigabytes(whole)} to train on + {gigabytes(of_validation)} to validate",
        )
    }
    schedule = limits = None
    if epochs.nodes > 1 and span and may_exchange(config.placement):
        schedule = make_schedule(config, epochs, span, train.size)
        limits = largest(schedule, site.world)
        needs["partitioned"] = of_partitioned(limits, int(train.size[kept].sum()), of_validation)
    chosen, line = placement.choose(
        config.placement, needs, epochs.nodes, site.world, site.node_workers, folder=site.folder, meminfo=site.meminfo
    )
    told(line)
    own_images = np.flatnonzero(node_of_image == site.node)
    if chosen == "replicated" or schedule is None or limits is None:
        return _replicated(train, (validation, own_images), site, progress)
    return _partitioned(train, kept, (validation, own_images), schedule, limits, site, progress)


def make_schedule(config: DataConfig, epochs: Epochs, span: range, size: NDArray[np.int64]) -> Schedule:
    """When what moves. size: bytes of every training sample."""
    bases = tuple(dict.fromkeys(epochs.base(epoch) for epoch in span))
    wanted = math.ceil(int(size.sum()) / epochs.nodes / config.exchange_round_bytes)
    rounds = min(max(1, wanted), max(1, MOST_COUNTS // epochs.nodes))
    return Schedule(epochs, size, bases, rounds)


def largest(schedule: Schedule, world: Communicator) -> Limits:
    """The limits of a schedule, exactly; its holdings are dealt to the workers of `world` to look at."""
    size, nodes = schedule.size, schedule.epochs.nodes
    slot = int(holdings.total(holdings.staged(size, nodes), size, nodes).max())
    send = 0
    for number in range(world.Get_rank(), len(schedule.bases), world.Get_size()):
        before, after = schedule.before(number), schedule.holding(number)
        slot = max(slot, int(after.bytes_of_nodes(size, nodes).max()))
        send = max(send, holdings.largest_sends(before, after, schedule.rounds, size, nodes))
    found = Limits(*(max(each) for each in zip(*world.allgather((slot, send)), strict=True)))
    if found.send > MOST_BYTES:
        raise UserError(
            f"a round of the exchange would move {found.send:,} bytes from one node, and MPI counts to {MOST_BYTES:,}; "
            "take a smaller data.exchange_round_bytes"
        )
    return found


def of_partitioned(limits: Limits, kept: int, of_validation: int) -> tuple[int, str]:
    """Bytes that partitioned placement takes at most on a node, and their sum in words. kept: bytes of stand-ins.
    of_validation: bytes of the images that its workers validate."""
    buffers = IN_FLIGHT * limits.send
    words = [f"{SLOTS} x {gigabytes(limits.slot)} to train on", f"{gigabytes(of_validation)} to validate"]
    words += [f"{gigabytes(kept)} of stand-ins"] if kept else []
    return SLOTS * limits.slot + kept + of_validation + buffers, " + ".join(
        [*words, f"{gigabytes(buffers)} of buffers"]
    )


def _node_of_validation_image(epochs: Epochs, images: int) -> NDArray[np.int64]:
    """The node whose worker validates each image (`loader.validation_batches`), shape (images,)."""
    return epochs.node_of_worker()[np.arange(images) % epochs.plan.workers]


def _replicated(
    train: Index, images: tuple[Index, NDArray[np.int64]], site: Site, progress: Progress
) -> tuple[Source, SampleMemory]:
    pieces = in_a_row([(train, np.arange(len(train))), images])
    segment = share(site.node_workers, pieces[-1].stop, fields=site.node_workers.Get_size(), folder=site.folder)
    bring_in(pieces, segment, site.node_workers, site.world, progress)
    source, validation = (SampleMemory(piece.index, segment.bytes, piece.start_of_each()) for piece in pieces)
    return source, validation


def _partitioned(
    train: Index,
    kept: NDArray[np.int64],
    images: tuple[Index, NDArray[np.int64]],
    schedule: Schedule,
    limits: Limits,
    site: Site,
    progress: Progress,
) -> tuple[Source, SampleMemory]:
    leaders = leaders_of(site)
    always = in_a_row([images, (train, kept)])
    first = always[-1].stop
    slots = [slice(first + number * limits.slot, first + (number + 1) * limits.slot) for number in range(SLOTS)]
    workers = site.node_workers.Get_size()
    segment = share(site.node_workers, slots[-1].stop, fields=LEFT + workers, folder=site.folder)
    own = np.flatnonzero(holdings.staged(schedule.size, schedule.epochs.nodes) == site.node)
    staged = Piece(train, own, slots[-1].start)
    bring_in([*always, staged], segment, site.node_workers, site.world, progress, reserved=slots)
    if site.node_workers.Get_rank() == 0:
        for number in range(LEFT + workers):
            segment.say(number, 0)
    site.node_workers.Barrier()
    validation = SampleMemory(images[0], segment.bytes, always[0].start_of_each())
    room = Room(segment, slots, always[1].start_of_each(), workers, site.patience_s)
    held = SampleMemory(train, segment.bytes, staged.start_of_each())
    exchanger = None if leaders is None else Exchanger(train, schedule, room, held, leaders, limits.send)
    local_rank = site.node_workers.Get_rank()
    return Partitioned(train, schedule, room, node=site.node, local_rank=local_rank, exchanger=exchanger), validation


def leaders_of(site: Site) -> Any:
    """An MPI communicator of the nodes' first workers, in the order of the nodes; None on all others."""
    from mpi4py import MPI

    leads = site.node_workers.Get_rank() == 0
    leaders = site.world.Split(0 if leads else MPI.UNDEFINED, site.node)
    return leaders if leads else None


def may_exchange(asked: str) -> bool:
    """Whether samples may be partitioned, as data.placement asks and MPI allows.

    Raises UserError where that is asked for and MPI does not let a thread of its own exchange samples.
    """
    if asked == "replicated":
        return False
    from mpi4py import MPI  # starts MPI: only a rank may import it

    if MPI.Query_thread() >= MPI.THREAD_MULTIPLE:
        return True
    if asked == "partitioned":
        raise UserError(
            "data.placement=partitioned exchanges samples in a thread, and this MPI was started without "
            "MPI_THREAD_MULTIPLE; data.placement=replicated needs none"
        )
    return False
