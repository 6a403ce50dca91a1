"""The loop: epochs, stages, updates. Reads like the run:

start from the newest checkpoint, or from the seed
for every update left:
    take its images, do it
    every few updates, and at the end of an epoch: agree (losses, a request to stop, batch-norm statistics)
    validate and save where it is due
save, validate, write the result
"""

import json
import math
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from pipeline import checkpoint
from pipeline.allreduce.contract import CommunicationError
from pipeline.config import Config, Plan
from pipeline.config.identity import identity
from pipeline.data import decode
from pipeline.data.epochs import Epochs
from pipeline.data.exchange import ExchangeError
from pipeline.data.loader import Batch, TrainingLoader, validation_batches
from pipeline.data.memory import SampleMemory, Source
from pipeline.data.synthetic import SyntheticLoader
from pipeline.metrics import LoopTime, Totals, UpdateLine, ValidationLine
from pipeline.optim.schedule import Position, position
from pipeline.profiler import Profiler, phase
from pipeline.run_folder import RunFolder, write_atomically
from pipeline.saving import Saver
from pipeline.step import Outcome, Step
from pipeline.transport import transport
from pipeline.validation import count_correct
from pipeline.watch import LostLoss, SlowUpdates, Spent, line
from pipeline.workers import Workers

VALIDATION_BATCH = 250


class Observer(Protocol):
    """Who is told what happens; on the first rank it writes and shows, on the others it does nothing."""

    def updates(self, lines: list[UpdateLine], time: LoopTime) -> None: ...

    def validated(self, line: ValidationLine) -> None: ...

    def saved(self, update: int) -> None: ...

    def slow(self, update: int, line: str) -> None: ...


@dataclass(frozen=True)
class Ending:
    """How an attempt ended."""

    update: int
    """Updates of the run that are done."""
    requested: bool
    """Whether a request to stop ended it: saved, to be started again."""
    top1: float | None
    """Percent; None where a request ended it, or where images are synthetic."""
    validation_images: int
    totals: Totals


class Trainer:
    """One attempt at a run, on one worker. Every worker makes the same calls in the same order."""

    def __init__(
        self,
        config: Config,
        plan: Plan,
        workers: Workers,
        folder: RunFolder,
        memories: tuple[Source, SampleMemory] | None,
        observer: Observer,
        stop_requested: Callable[[], bool],
    ) -> None:
        """memories: the training samples and this node's validation images; None with data.synthetic."""
        self._config, self._plan, self._workers, self._folder = config, plan, workers, folder
        self._memories = memories
        self._epochs = epochs_of(config, plan, workers)
        self._observer, self._heartbeat = observer, workers.heartbeat
        self._decoder = None if memories is None else _decoder(config, workers, memories)
        self._step = Step(config, workers, self._chosen_all_reduce())
        self.averaging = self._step.all_reduce.description() | {"transport": transport(config.site.backend)}
        if workers.is_head:
            write_atomically(folder.all_reduce, json.dumps(self.averaging, indent=1) + "\n")
        self._stop_requested = stop_requested
        self._undisclosed: list[tuple[int, Position, Outcome, float, float]] = []
        self._disclosed_s = 0.0
        self._totals = Totals()
        self._waited_for_data_s = 0.0
        self._slow = SlowUpdates(config.run.slow_update_times)
        self._lost_loss = LostLoss(config.run.stop_after_lost_loss)
        self._averaged = True  # whether all workers hold the same batch-norm statistics just now
        self._replaced_samples = 0
        self.update = self._resume()
        self._saved_update = self.update  # never read off the disk: the first rank writes while others look
        self._saver = Saver(
            folder, self._step, workers, self._epochs, identity(config), keep=config.run.keep_checkpoints
        )
        self._last = plan.last_update(config.run)
        self._profiler = Profiler(config.run.profile if workers.is_head else 0, folder.profile, self.update)

    def run(self) -> Ending:
        """Train to the end of the run, of the part that was asked for, or until a request to stop."""
        loader = self.loader()
        batches = iter(loader)
        requested = False
        self.start_clock()
        try:
            while self.update < self._last and not requested:
                requested = self.advance(batches)
        finally:
            loader.close()
            self._profiler.close()
        return self._end(requested)

    def loader(self) -> TrainingLoader | SyntheticLoader:
        """This worker's batches from the next update on."""
        worker, device = self._workers.rank, self._workers.device
        if self._memories is None:
            return SyntheticLoader(self._config, self._plan, worker=worker, first_update=self.update, device=device)
        return TrainingLoader(
            self._memories[0],
            self._config.data,
            self._plan,
            seed=self._config.seed,
            worker=worker,
            first_update=self.update,
            last_update=self._last,
            decoder=self._decoder,
            epochs=self._epochs,
        )

    def start_clock(self) -> None:
        """Loop time counts from here."""
        self._started = self._saved_s = time.perf_counter()

    def advance(self, batches: Iterator[list[Batch]]) -> bool:
        """Do the next update and what is due after it; returns whether a stop was requested anywhere."""
        asked = time.perf_counter()
        if self._memories is not None:
            self._memories[0].check()
        self._heartbeat.at("waiting for data", update=self.update + 1)
        with phase("data"):
            micro_batches = _next(batches)
        self._waited_for_data_s += time.perf_counter() - asked
        here = position(self._config.optim, self._plan, self.update)
        self._heartbeat.at("computing", update=self.update + 1)
        outcome = self._step.update(micro_batches, here)
        self._averaged = False
        self._replaced_samples += sum(batch.replaced for batch in micro_batches)
        self.update += 1
        self._undisclosed.append((self.update, here, outcome, self._loop_s(), time.perf_counter() - asked))
        self._profiler.update_done()
        return self._after_update(here)

    def _resume(self) -> int:
        """Take up the newest checkpoint; returns its updates, 0 where there is none.

        The first rank says which it is: a parallel file system may show its nodes different listings.
        """
        newest = [checkpoint.newest(self._folder) if self._workers.is_head else None]
        with self._heartbeat.collective("learning which checkpoint is the newest"):
            dist.broadcast_object_list(newest, src=0, group=self._workers.control)
        if newest[0] is None:
            return 0
        config = self._config
        state = checkpoint.load(self._folder, newest[0], self._epochs, identity(config), regrid=config.resume.regrid)
        self._step.model.load_state_dict(state.model)
        self._step.optimizer.load_state_dict(state.optimizer)
        self._step.scaler.load_state_dict(state.scaler)
        if state.batch_norm is not None and state.plan["workers"] == self._workers.world_size:
            self._step.batch_norm.restore(state.batch_norm[self._workers.rank].to(self._workers.device))
            self._averaged = False
        return state.update

    def _chosen_all_reduce(self) -> str | None:
        """What `allreduce=auto` took when the run began, so that a resumed one continues to the bit; None: not yet."""
        chosen = [None]
        if self._workers.is_head and self._folder.all_reduce.exists():
            chosen = [json.loads(self._folder.all_reduce.read_text())["name"]]
        with self._heartbeat.collective("learning which all-reduce runs"):
            dist.broadcast_object_list(chosen, src=0, group=self._workers.control)
        return chosen[0]

    def _after_update(self, here: Position) -> bool:
        """Agree, validate, save, where it is due; returns whether a stop was requested anywhere."""
        run = self._config.run
        epoch_ends = here.update_in_epoch + 1 == self._plan.stage_at(here.epoch).updates_per_epoch
        agreeing = epoch_ends or self.update % run.agree_every_updates == 0
        saving = self.update % run.checkpoint_every_updates == 0
        requested, overdue = self._disclose() if agreeing or saving else (False, False)
        if agreeing:
            self._average()
            self._tell_saved()
        every = run.validate_every_epochs
        if epoch_ends and every and (here.epoch + 1) % every == 0 and self.update < self._last:
            self._validate(here.epoch + 1)
        if requested or saving or overdue:
            self._save()
        return requested

    def _end(self, requested: bool) -> Ending:
        """Save what is not saved yet, validate, add up."""
        self._disclose()
        self._totals.loop_time_s = self._loop_s()
        if self._saved_update != self.update:
            self._save()
        self._finish_saving()
        counts = None
        if not requested:
            self._average()
            counts = self._validate(self.update_epoch())
        self._step.all_reduce.close()
        return Ending(
            self.update,
            requested,
            None if counts is None else percent(counts),
            0 if counts is None else int(counts[1]),
            self._totals,
        )

    def update_epoch(self) -> float:
        """Fractional epoch that the run has reached."""
        if self.update == self._plan.updates:
            return float(self._plan.epochs)
        return position(self._config.optim, self._plan, self.update).fractional_epoch

    def _disclose(self) -> tuple[bool, bool]:
        """Add up over all workers what happened since the last time.

        Returns whether any of them was asked to stop, and whether by the first one's clock a checkpoint is overdue.
        """
        done = self._undisclosed
        exposed_s, averaging_s = self._step.all_reduce.take_times()
        since = [
            float(self._stop_requested()),
            exposed_s,
            averaging_s,
            self._waited_for_data_s,
            self._replaced_samples,
            float(self._is_overdue()),
        ]
        self._waited_for_data_s, self._replaced_samples = 0.0, 0
        losses = [outcome.loss for _, _, outcome, *_ in done]
        corrects = [outcome.correct for _, _, outcome, *_ in done]
        sums = torch.tensor(since, dtype=torch.float64)
        if done:
            measured = torch.cat([torch.stack(losses).double(), torch.stack(corrects).double()]).cpu()
            sums = torch.cat([sums, measured, torch.tensor([took_s for *_, took_s in done], dtype=torch.float64)])
        with self._heartbeat.collective("agreement"):
            dist.all_reduce(sums, group=self._workers.control)
        values = sums.tolist()
        of_updates = values[len(since) :]
        workers = self._workers.world_size
        own = Spent(since[3], max(0.0, sum(took_s for *_, took_s in done) - since[1] - since[3]), since[1])
        exposed_s, averaging_s, data_s = (value / workers for value in values[1:4])
        self._totals.communication_s += exposed_s
        self._totals.averaging_s += averaging_s
        self._totals.data_s += data_s
        self._totals.replaced_samples += int(values[4])
        share = 1 / max(1, len(done))
        lines = self._lines(
            of_updates[: len(done)],
            of_updates[len(done) : 2 * len(done)],
            exposed_s=exposed_s * share,
            averaging_s=averaging_s * share,
        )
        self._totals.updates += len(lines)
        self._totals.images += sum(line.batch for line in lines)
        self._totals.skipped_updates += sum(line.skipped for line in lines)
        self._undisclosed = []
        loop_s = self._loop_s()
        updates_s = sum(line.update_s for line in lines)
        self._observer.updates(lines, LoopTime(loop_s - self._disclosed_s, updates_s, data_s, exposed_s))
        self._disclosed_s = loop_s
        self._tell_slow(lines, [seconds / workers for seconds in of_updates[2 * len(done) :]], own)
        self._lost_loss.check(self.update - len(lines) + 1, [line.loss for line in lines])
        return values[0] > 0, values[5] > 0

    def _tell_slow(self, lines: list[UpdateLine], took_s: list[float], own: Spent) -> None:
        """Say which updates since the last agreement were slow, and who was. took_s: of each, mean over the workers."""
        slow = self._slow.find(took_s)
        if not slow:  # on no worker: all have the same numbers
            return
        told: list[tuple[Spent, str]] = [(own, "")] * self._workers.world_size
        with self._heartbeat.collective("learning who was slow"):
            dist.all_gather_object(told, (own, socket.gethostname()), group=self._workers.control)
        spent, hosts = zip(*told, strict=True)
        for place, times in slow.items():
            update = lines[place].update
            self._observer.slow(update, line(update, took_s[place], times, spent, hosts))

    def _is_overdue(self) -> bool:
        """Whether run.checkpoint_every_minutes have passed, by the first worker's clock alone: clocks differ."""
        every_minutes = self._config.run.checkpoint_every_minutes
        if every_minutes is None or not self._workers.is_head:
            return False
        return time.perf_counter() - self._saved_s >= 60 * every_minutes

    def _lines(
        self, losses: list[float], corrects: list[float], *, exposed_s: float, averaging_s: float
    ) -> list[UpdateLine]:
        """A line for every update since the last agreement; the times are each one's."""
        lines = []
        for (update, here, outcome, time_s, update_s), loss, correct in zip(
            self._undisclosed, losses, corrects, strict=True
        ):
            batch = self._plan.stage_at(here.epoch).total_batch
            lines.append(
                UpdateLine(
                    update=update,
                    epoch=here.fractional_epoch,
                    loss=loss / self._workers.world_size,
                    training_error=100 * (1 - correct / batch),
                    lr=here.lr,
                    momentum=here.momentum,
                    batch=batch,
                    loss_scale=outcome.loss_scale,
                    skipped=outcome.skipped,
                    time_s=time_s,
                    update_s=update_s,
                    communication_exposed_s=exposed_s,
                    communication_s=averaging_s,
                )
            )
        return lines

    def _average(self) -> None:
        """Average batch-norm statistics over the workers, unless they are alike already."""
        if not self._averaged:
            with self._heartbeat.collective("averaging batch-norm statistics"):
                self._step.batch_norm.average()
            self._averaged = True

    def _validate(self, epoch: float) -> Tensor | None:
        """(correct, seen) over all workers after `epoch` epochs; batch-norm statistics must have been averaged.

        None with synthetic images, of which there are none to validate with.
        """
        if self._memories is None:
            return None
        began_s = self._loop_s()
        self._heartbeat.at("validating", update=self.update)
        batches = validation_batches(
            self._memories[1],
            self._config.data,
            worker=self._workers.rank,
            workers=self._workers.world_size,
            batch=VALIDATION_BATCH,
            decoder=self._decoder,
        )
        counts = count_correct(self._step.model, batches, self._workers.device)
        with self._heartbeat.collective("adding up the validation"):
            dist.all_reduce(counts, group=self._workers.control)
        took_s = self._loop_s() - began_s
        self._observer.validated(ValidationLine(self.update, epoch, percent(counts), int(counts[1]), took_s))
        return counts

    def _save(self) -> None:
        """Take a checkpoint; it is written while training goes on."""
        self._saved_update, self._saved_s = self.update, time.perf_counter()
        self._saver.save(self.update, averaged=self._averaged)

    def _finish_saving(self) -> None:
        """Wait for what is still being written."""
        self._saver.finish()
        self._tell_saved()

    def _tell_saved(self) -> None:
        for update in self._saver.written():
            self._observer.saved(update)

    def _loop_s(self) -> float:
        return time.perf_counter() - self._started


def epochs_of(config: Config, plan: Plan, workers: Workers) -> Epochs:
    """The order of a run's samples."""
    return Epochs(config.seed, plan, workers.place.layout, config.data.exchange_every)


def _decoder(config: Config, workers: Workers, memories: tuple[Source, SampleMemory]) -> decode.Decoder:
    """One for training and validation."""
    largest = max((memory.index.largest for memory in memories), key=math.prod)
    return decode.build(config.data, workers.device, largest=largest)


def _next(batches: Iterator[list[Batch]]) -> list[Batch]:
    """The next update's images. Raises CommunicationError where they are on a node that does not answer."""
    try:
        return next(batches)
    except ExchangeError as error:
        raise CommunicationError.in_phase("the exchange of samples", error) from error


def percent(counts: Tensor) -> float:
    """Top-1 in percent of (correct, seen)."""
    return 100 * float(counts[0]) / float(counts[1])
