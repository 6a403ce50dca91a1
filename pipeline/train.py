"""What a rank starts as: `python -m pipeline.train RUN_FOLDER`. No Hydra: it reads the resolved configuration.

Exit codes: 0 done, 85 saved on request and to be started again, 1 failed with one line.
"""

import contextlib
import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console

from pipeline.binding import bind
from pipeline.config import Config, Plan, load, make_plan
from pipeline.errors import LostWorkerError, UserError
from pipeline.metrics import LoopTime, MetricsFile, UpdateLine, ValidationLine, earlier_totals, save_totals
from pipeline.report.console import ProgressDisplay, print_averaging, print_header, print_result
from pipeline.result import result
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED, EXIT_SAVED, Kind, RunFolder, write_atomically, write_error
from pipeline.starting import Starting
from pipeline.wording import counted

if TYPE_CHECKING:
    from pipeline.heartbeat import Note
    from pipeline.node_checks import Report
    from pipeline.trainer import Ending
    from pipeline.workers import Workers


def main(arguments: list[str]) -> int:
    """Run one rank; returns its exit code."""
    began = Began.now(os.environ)
    folder = RunFolder.open(arguments[0])
    attempt = folder.latest_attempt()
    rank = launched_rank(os.environ)
    launcher = os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1)
    console = redirect_output(folder, rank)
    stop = threading.Event()
    kind: Kind

    def leave(line: str, kind: Kind) -> None:
        leave_word(launcher, attempt, rank, line, kind)

    signal.signal(signal.SIGUSR2, lambda *_: stop.set())
    try:
        return _attempt(folder, attempt, console, stop, began, leave)
    except UserError as error:
        line, kind = str(error), "mistake"
    except LostWorkerError as error:
        line, kind = str(error), "guess" if error.guessed else "fault"
    except Exception as error:
        with contextlib.suppress(OSError):
            traceback.print_exc()
        line, kind = f"{describe_fault(error)}; see {folder.rank_log(rank)}", "fault"
    leave(line, kind)
    with contextlib.suppress(OSError):
        print(f"error: {line}", file=sys.stderr, flush=True)
    return EXIT_FAILED


def leave_word(launcher: TextIO, attempt: Path | None, rank: int, line: str, kind: Kind) -> None:
    """Leave a rank's last line in the attempt's folder, or where that cannot be written with the launcher, which has
    what the job script prints on standard error."""
    try:
        write_error(attempt, rank, f"rank {rank}: {line}", kind)
    except OSError:
        with contextlib.suppress(OSError):
            print(f"rank {rank}: {line}", file=launcher, flush=True)


@dataclass(frozen=True)
class Began:
    """When an attempt began."""

    wall_s: float
    """By the clock that a person reads, seconds since 1970: the job script's, or this process's."""
    before_s: float
    """From there to this process's first line; by that clock, which may have jumped: never below 0."""
    monotonic_s: float

    @classmethod
    def now(cls, environment: Mapping[str, str]) -> "Began":
        """As this process begins."""
        here_s = time.time()
        wall_s = float(environment.get("TORUS224_STARTED", here_s))
        return cls(wall_s, max(0.0, here_s - wall_s), time.monotonic())

    def took_s(self) -> float:
        """Since then, whatever the clock does meanwhile."""
        return self.before_s + time.monotonic() - self.monotonic_s


def ignore_late_requests(environment: Mapping[str, str]) -> None:
    """Let a request to save that comes when a rank is done not end it: Python takes its handlers away as it ends."""
    for request in (signal.SIGUSR2, *([signal.SIGTERM] if environment.get("TORUS224_TERM_SAVES") == "1" else [])):
        signal.signal(request, signal.SIG_IGN)


def describe_fault(error: Exception) -> str:
    """One line on a fault of ours: its kind, its first words and where it arose."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    words = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {words}"


def launched_rank(environment: Mapping[str, str]) -> int:
    """The rank before MPI has started. mpirun's own words come first: under it every rank has SLURM_PROCID=0."""
    for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"):
        if environment.get(name, "").isdigit():
            return int(environment[name])
    return 0


def redirect_output(folder: RunFolder, rank: int) -> Console:
    """Send this rank's output to its own log; the first rank keeps the job's for what a person follows."""
    shown = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1) if rank == 0 else open(os.devnull, "w")  # noqa: SIM115
    log = os.open(folder.rank_log(rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    os.close(log)
    live = os.environ.get("TORUS224_LIVE") == "1"
    width = int(os.environ.get("TORUS224_COLUMNS", "100"))  # set by jobs.local
    return Console(file=shown, force_terminal=live, width=width, no_color=not live)


def _attempt(
    folder: RunFolder, attempt: Path | None, console: Console, stop: threading.Event, began: Began, leave: "Note"
) -> int:
    """Train, and write what came of it."""
    config = load(folder.config)
    plan = make_plan(config)
    rank = launched_rank(os.environ)
    starting = Starting(attempt, rank, os.environ)
    starting.note("importing torch")
    print(bind(config.site.binding, config.site.device, os.environ), flush=True)  # torch's threads inherit it
    console.print(
        f"starting {counted(plan.workers, 'worker')} (a few seconds; up to a minute on a busy machine)", highlight=False
    )

    gc.disable()  # imports make a million objects and no garbage: a rank is up an eighth sooner
    from pipeline import preflight, workers  # torch and MPI take seconds to import: say something first

    workers.die_with_launcher()
    preflight.set_threads(config.site.threads_per_worker)

    def told(report: "Report") -> None:
        tell_of_nodes(report, folder, attempt, console)

    me = workers.start(config.site, plan.grid, config.allreduce.timeout_s, at=starting.note, attempt=attempt, told=told)
    starting.end()
    if os.environ.get("TORUS224_TERM_SAVES") == "1":  # under srun; mpirun would kill the ranks a moment later
        signal.signal(signal.SIGTERM, lambda *_: stop.set())  # from here on: a start that hangs must end by it

    with me.heartbeat.watching(leave), folder.writing():
        ending = _train(config, plan, me, folder, attempt, console, stop, began)
        workers.stop(me.heartbeat)
    if me.is_head and attempt is not None and not ending.requested:
        (attempt / "done").touch()  # a launcher's code 0 alone may mean that its daemons were killed
    return EXIT_SAVED if ending.requested else EXIT_DONE


def _train(
    config: Config,
    plan: Plan,
    me: "Workers",
    folder: RunFolder,
    attempt: Path | None,
    console: Console,
    stop: threading.Event,
    began: Began,
) -> "Ending":
    """Do the attempt's updates; the first rank keeps what comes of them."""
    from mpi4py import MPI

    from pipeline import checkpoint, preflight
    from pipeline.data.sources import Site, bring
    from pipeline.report.console import staging
    from pipeline.trainer import Trainer, epochs_of

    if me.is_head:
        for line in checkpoint.sift(folder, last=plan.updates):
            console.print(f"warning: {line}", highlight=False, markup=False, soft_wrap=True)
            print(f"warning: {line}", flush=True)
    me.heartbeat.at("reading the data")
    if attempt is not None and me.is_head:
        (attempt / "ready").touch()  # from here on the script passes USR2 on; before, it left a file
        if (attempt / "stop").exists():
            stop.set()
    memories, validation_images = None, 0
    if not config.data.synthetic:
        indexes = preflight.read_data(config, plan, MPI.COMM_WORLD)
        site = Site(MPI.COMM_WORLD, me.place.node_workers, me.place.node, patience_s=config.allreduce.timeout_s)
        newest = MPI.COMM_WORLD.allgather(checkpoint.newest(folder) if me.is_head else None)
        span = plan.epochs_between(max(filter(None, newest), default=0), plan.last_update(config.run))
        with staging(console, every_s=config.run.log_every_s) as progress:
            memories = bring(
                config.data, epochs_of(config, plan, me), span, indexes, site, told=print, progress=progress
            )
        validation_images = len(indexes[1])
    observer = Watcher(config, plan, folder, console, began.wall_s, validation_images) if me.is_head else Silent()
    trainer = Trainer(config, plan, me, folder, memories, observer, stop.is_set)
    gc.freeze()  # what is there now stays: no collection between updates walks over it
    gc.enable()
    observer.start(trainer.update, trainer.averaging)
    ending = trainer.run()
    if memories is not None:
        memories[0].close()
    observer.close(finished=not ending.requested)
    if me.is_head:
        totals = ending.totals
        totals.wall_time_s = began.took_s()
        save_totals(attempt, totals)
        if not ending.requested:
            outcome = result(
                config, plan, ending, totals.plus(earlier_totals(folder, attempt)), str(trainer.averaging["name"])
            )
            write_atomically(folder.result, json.dumps(outcome, indent=1) + "\n")
            print_result(console, outcome)
    return ending


def tell_of_nodes(report: "Report", folder: RunFolder, attempt: Path | None, console: Console) -> None:
    """Keep what was found of the job's nodes: in the first rank's log and environment.txt, warnings on the console."""
    lines = [*report.lines, *(f"warning: {warning}" for warning in report.warnings)]
    print("\n".join(lines), flush=True)
    for warning in report.warnings:
        console.print(f"warning: {warning}", highlight=False, markup=False, soft_wrap=True)
    number = attempt.name if attempt else "?"
    with folder.environment.open("a") as file:
        opened = time.strftime("%Y-%m-%d %H:%M:%S %z")
        file.write("\n".join(["", f"attempt {number}, {opened}", *lines, f"hosts {' '.join(report.hosts)}", ""]))


class Silent:
    """The observer of every rank but the first."""

    def start(self, update: int, averaging: Mapping[str, Any]) -> None: ...

    def updates(self, lines: list[UpdateLine], time: LoopTime) -> None: ...

    def validated(self, line: ValidationLine) -> None: ...

    def saved(self, update: int) -> None: ...

    def slow(self, update: int, line: str) -> None: ...

    def close(self, *, finished: bool) -> None:
        """finished: whether the attempt ended by itself, and not on request to go on later."""


class Watcher(Silent):
    """The observer of the first rank: what the run folder keeps of a run, and what a person follows."""

    def __init__(
        self,
        config: Config,
        plan: Plan,
        folder: RunFolder,
        console: Console,
        began_s: float,
        validation_images: int,
    ) -> None:
        """began_s: when the attempt began, seconds since 1970. validation_images: in the whole validation set."""
        self._config, self._plan, self._folder, self._console = config, plan, folder, console
        self._began_s, self._validation_images = began_s, validation_images

    def start(self, update: int, averaging: Mapping[str, Any]) -> None:
        print_header(self._console, self._config, self._plan)
        log = Console(file=sys.stdout, width=200, no_color=True, force_terminal=False)
        for console in (self._console, log):
            print_averaging(console, averaging)
        if update:
            self._console.print(f"going on after update {update} of {self._plan.updates}", highlight=False)
        elif self._folder.metrics.exists():
            self._console.print("there is no checkpoint: from the beginning", highlight=False)
        self._open_records(update)
        every_s = self._config.run.log_every_s
        displays = [(self._console, every_s), (log, every_s)]
        self._displays = [
            ProgressDisplay(console, self._plan, first_update=update, every_s=seconds) for console, seconds in displays
        ]

    def updates(self, lines: list[UpdateLine], time: LoopTime) -> None:
        self._metrics.write(lines)
        self._mlperf.updates(lines)
        if self._events is not None:
            self._events.updates(lines, time)
        if lines:
            for display in self._displays:
                display.show(vars(lines[-1]))

    def validated(self, line: ValidationLine) -> None:
        self._validations.write([line])
        self._mlperf.validated(line)
        if self._events is not None:
            self._events.validated(line)
        self._note(f"epoch {round(line.epoch, 2):g}: top-1 {line.top1:.2f} %")

    def saved(self, update: int) -> None:
        self._displays[-1].note(f"saved {self._folder.checkpoint(update)}")

    def slow(self, update: int, line: str) -> None:
        with self._folder.slow_updates.open("a") as file:
            file.write(json.dumps({"update": update, "line": line}) + "\n")
        self._note(f"slow: {line}")

    def close(self, *, finished: bool) -> None:
        if finished:
            self._mlperf.finish()
        for record in (self._metrics, self._validations, self._mlperf, self._events):
            if record is not None:
                record.close()
        for display in self._displays:
            display.close()

    def _open_records(self, update: int) -> None:
        """Open what is written while the run goes; each drops what lies beyond `update`."""
        from pipeline.mlperf import MlperfLog  # here, so that no other rank loads these packages

        self._metrics = MetricsFile(self._folder.metrics, update)
        self._validations = MetricsFile(self._folder.validations, update)
        self._mlperf = MlperfLog(
            self._folder.mlperf_log,
            self._config,
            self._plan,
            update=update,
            began_s=self._began_s,
            validation_images=self._validation_images,
        )
        self._events = None
        if self._config.run.tensorboard:
            from pipeline.events import EventFile

            self._events = EventFile(self._folder.events, update)

    def _note(self, text: str) -> None:
        for display in self._displays:
            display.note(text)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    ignore_late_requests(os.environ)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    if code == EXIT_FAILED:
        os._exit(code)  # MPI's own exit handler would wait for ranks that never come
    sys.exit(code)
