"""Exp. 5's scale model on two emulated nodes, again and again under faults: `make soak MINUTES=30`.

One undisturbed run comes first. Every other run is struck 10 to 40 s after it has begun, by a seeded schedule: a rank
killed or stopped, mpirun or the job script killed, a node cut off, a request to save. Once it has ended it is started
again, until it is done; then its losses and tensors must be those of the undisturbed one to the bit. Anything else ends
the soak with its line: a run that does not end in time, leaves a process, or ends with other numbers; its folder stays.

Needs root, as emulated hosts do. Nothing else outlives it, however it ends; what it found stands in soak.jsonl.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch

from bench import hosts_run
from bench.emulated_hosts import EmulatedHosts
from bench.run_processes import of_mpirun, of_rank, of_script, processes
from jobs.command_line import Parser, run
from jobs.state import find_out
from pipeline import checkpoint
from pipeline.errors import UserError
from pipeline.metrics import newest_lines, read_metrics
from pipeline.report.markdown import put_between
from pipeline.run_folder import EXIT_DONE, RunFolder
from pipeline.wording import counted

NODES, WORKERS = 2, 4
WAIT_S = (10.0, 40.0)
"""Between the start of training and the fault."""
END_S = 120.0
"""By when a struck run must have ended; it takes about half a minute where a node is cut off."""
RUN_S = 1800.0
"""By when an attempt that nothing has struck must have ended."""
KINDS = ("rank killed", "rank stopped", "mpirun killed", "job script killed", "node cut off", "saved on request")
WORDS = ["exp=exp5", "allreduce.timeout_s=5", "run.checkpoint_every_updates=100", "run.tensorboard=false"]
DOCUMENT = Path("docs/reliability.md")
BEGIN, END = "<!-- soak: written by make soak -->", "<!-- end of soak -->"


@dataclass(frozen=True)
class Fault:
    """What is to befall a run."""

    wait_s: float
    kind: str
    rank: int


@dataclass(frozen=True)
class Ended:
    """What came of a fault."""

    fault: Fault
    code: int | None
    stop_s: float
    lost_updates: int
    line: str


@dataclass
class Found:
    """What came of a soak."""

    seed: int
    minutes: float
    updates: int = 0
    """Of one run."""
    finished: int = 0
    """Runs with the undisturbed one's losses and tensors."""
    faults: list[Ended] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make soak", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="overrides for all runs")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long, the undisturbed run included (30)")
    parser.add_argument("--seed", type=int, default=0, help="of the schedule (0)")
    parser.add_argument("--runs", type=Path, default=Path("runs/soak"), metavar="FOLDER", help="(runs/soak)")
    parser.add_argument("--write", action="store_true", help=f"put the summary into {DOCUMENT}")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shutil.rmtree(given.runs, ignore_errors=True)
    given.runs.mkdir(parents=True)
    found = soak(given.runs.absolute(), given.words, given.minutes, given.seed)
    words = summary(found)
    print(words, flush=True)
    if given.write:
        DOCUMENT.write_text(put_between(DOCUMENT.read_text(), BEGIN, END, words))
    return EXIT_DONE


def soak(folder: Path, words: Sequence[str], minutes: float, seed: int) -> Found:
    """Run until the time is up. Raises UserError where a run does not keep what is promised; its folder stays then."""
    ends_s = time.monotonic() + 60 * minutes
    found, planned = Found(seed, minutes), schedule(seed)
    whole = RunFolder(folder / "undisturbed")
    try:
        with EmulatedHosts(NODES, None) as hosts:
            say("one undisturbed run")
            expected = undisturbed(hosts, whole, words)
            found.updates = len(expected["losses"])
            while time.monotonic() < ends_s:
                run = hosts_run.make(hosts, folder / f"run-{found.finished}", [*WORDS, *words])
                if disturbed(hosts, run, planned, ends_s, found, folder / "soak.jsonl"):
                    check(run, expected)
                    found.finished += 1
                    faults = counted(len(found.faults), "fault")
                    say(f"{counted(found.finished, 'run')} finished under {faults}, all the same to the bit")
                shutil.rmtree(run.path)
    except KeyboardInterrupt:
        for path in folder.glob("*/"):
            shutil.rmtree(path)
        raise
    shutil.rmtree(whole.path)
    return found


def undisturbed(hosts: EmulatedHosts, run: RunFolder, words: Sequence[str]) -> dict[str, Any]:
    """The outcome of a run that nothing befalls. Raises UserError where it fails."""
    hosts_run.make(hosts, run.path, [*WORDS, *words])
    process = hosts_run.start(hosts, run)
    try:
        wait(lambda: process.poll() is not None, RUN_S, "end")
    finally:
        kill_all(run)
        process.wait()
    if process.returncode != EXIT_DONE:
        raise UserError(f"the undisturbed run failed: {said(run)}")
    return outcome(run)


def schedule(seed: int) -> Iterator[Fault]:
    """What befalls the runs, one after another, whatever they do: every kind once in each six."""
    drawn = random.Random(seed)  # noqa: S311 - faults, not secrets
    while True:
        for kind in drawn.sample(KINDS, len(KINDS)):
            yield Fault(drawn.uniform(*WAIT_S), kind, drawn.randrange(WORKERS))


def disturbed(
    hosts: EmulatedHosts, run: RunFolder, planned: Iterator[Fault], ends_s: float, found: Found, log: Path
) -> bool:
    """Let faults befall a run until it is done: True, or the time is up: False."""
    while time.monotonic() < ends_s:
        ended = attempt(hosts, run, next(planned), ends_s)
        if ended is not None:
            found.faults.append(ended)
            with log.open("a") as file:
                file.write(json.dumps(asdict(ended)) + "\n")
            say(f"{ended.fault.kind}: {ended.stop_s:.0f} s to stop, {ended.lost_updates} updates lost; {ended.line}")
        if run.exit_code(run.latest_attempt()) == EXIT_DONE:
            return True
    return False


def attempt(hosts: EmulatedHosts, run: RunFolder, fault: Fault, ends_s: float) -> Ended | None:
    """One attempt, and what came of the fault; None where it ended before that, or the time was up.

    Raises UserError where it fails by itself, does not end, or leaves processes.
    """
    before = run.latest_attempt()
    process = hosts_run.start(hosts, run)
    try:
        began_s = wait(lambda: process.poll() is not None or is_training(run, before), RUN_S, "begin")
        strike_s = min(began_s + fault.wait_s, ends_s)
        while process.poll() is None and time.monotonic() < strike_s:
            time.sleep(0.05)
        if process.poll() not in (None, EXIT_DONE):
            raise UserError(f"{run} failed by itself: {said(run)}")
        if process.poll() == EXIT_DONE or time.monotonic() >= ends_s:
            return None
        strike(hosts, run, fault)
        struck_s = time.monotonic()
        stop_s = wait(lambda: process.poll() is not None, END_S, f"end after: {fault.kind}") - struck_s
        wait(lambda: processes(run) == [], END_S, f"leave no process after: {fault.kind}")
        return Ended(fault, run.exit_code(run.latest_attempt()), stop_s, lost(run), said(run))
    finally:
        kill_all(run)
        process.wait()
        hosts.mend(NODES - 1)


def strike(hosts: EmulatedHosts, run: RunFolder, fault: Fault) -> None:
    """Let a fault befall a run; nothing where its process has just ended."""
    if fault.kind == "node cut off":
        hosts.cut(NODES - 1)
        return
    pid, number = {
        "rank killed": (of_rank(run, fault.rank), signal.SIGKILL),
        "rank stopped": (of_rank(run, fault.rank), signal.SIGSTOP),
        "mpirun killed": (of_mpirun(run), signal.SIGKILL),
        "job script killed": (of_script(run), signal.SIGKILL),
        "saved on request": (of_script(run), signal.SIGUSR2),
    }[fault.kind]
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_all(run: RunFolder) -> None:
    """End whatever is left of an attempt."""
    for pid in processes(run):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def check(run: RunFolder, expected: dict[str, Any]) -> None:
    """Raise UserError where a finished run is not the undisturbed one."""
    found = outcome(run)
    for what, value in expected.items():
        if found[what] != value:
            raise UserError(f"{run} was disturbed and ends with other {what} than the undisturbed run; both are kept")


def outcome(run: RunFolder) -> dict[str, Any]:
    """The losses of a run, and a digest of every tensor of its last checkpoint."""
    state = checkpoint.read(run.checkpoint(run.saved_updates()[-1]))
    return {"losses": [line["loss"] for line in read_metrics(run.metrics)], "tensors": digests(vars(state))}


def digests(tree: Any, name: str = "") -> dict[str, str]:
    """SHA-256 of every tensor of a nested state, by its place."""
    if isinstance(tree, torch.Tensor):
        return {name: hashlib.sha256(tree.contiguous().numpy().tobytes()).hexdigest()}
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return {key: value for inner, child in items for key, value in digests(child, f"{name}.{inner}").items()}


def is_training(run: RunFolder, before: Path | None) -> bool:
    """Whether an attempt after `before` has begun."""
    newest = run.latest_attempt()
    return newest is not None and newest != before and (newest / "ready").exists()


def lost(run: RunFolder) -> int:
    """Updates in the records that are in no checkpoint."""
    lines, _ = newest_lines(run.metrics)
    return max(0, (lines[-1]["update"] if lines else 0) - max(run.saved_updates(), default=0))


def said(run: RunFolder) -> str:
    """What make status says of a run."""
    found = find_out(run, None)
    return f"{found.word}: {found.why}" if found.why else found.word


def wait(is_so: Callable[[], bool], limit_s: float, what: str) -> float:
    """Wait; returns when it was so. Raises UserError where it does not come about."""
    ends_s = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > ends_s:
            raise UserError(f"a run did not {what} within {limit_s:g} s")
        time.sleep(0.05)
    return time.monotonic()


def summary(found: Found) -> str:
    """Markdown."""
    lines = [
        f"Seed {found.seed}, {found.minutes:g} minutes: {counted(found.finished, 'run')} of {found.updates:,} updates "
        f"finished under {counted(len(found.faults), 'fault')}, each with the losses and tensors of the undisturbed "
        "run to the bit.",
        "",
        "| fault | times | time to stop, median and longest | updates lost, median and most |",
        "|---|---:|---:|---:|",
    ]
    for kind in KINDS:
        of = [one for one in found.faults if one.fault.kind == kind]
        if of:
            stops, gone = [one.stop_s for one in of], [one.lost_updates for one in of]
            lines.append(
                f"| {kind} | {len(of)} | {median(stops):.0f} s, {max(stops):.0f} s | {median(gone):g}, {max(gone)} |"
            )
    return "\n".join(lines)


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
