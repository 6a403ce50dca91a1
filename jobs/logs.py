"""A run's log: `python -m jobs.logs RUN [--follow] [--rank N] [--lines N]`. Torch-free.

Shown is log/job.log; of a run on this machine, whose script shows its ranks on the terminal, the first rank's log; and
where the script never began, what the scheduler itself left. Following goes over new attempts, which append to the same
file, and ends by itself when nothing more is to come.
"""

import codecs
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from jobs.command_line import Parser, run
from jobs.scheduler import find
from jobs.state import Ask, State, find_out
from pipeline.config import load
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, RunFolder, check_regular

LOOK_EVERY_S = 1.0
"""Seconds between two looks at the files: what a person takes for at once."""

ASK_EVERY_S = 30.0
"""Seconds between two questions for the run's state: a scheduler is shared, and many may follow."""

END_BYTES = 2**20
"""Of a log's end, so much is searched for its last lines."""


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make logs RUN=…", description=__doc__)
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("--follow", action="store_true", help="go on until the run ends")
    parser.add_argument("--rank", type=int, metavar="N", help="the log of one rank instead of the job's")
    parser.add_argument("--lines", type=int, metavar="N", help="only the last N lines; 20 with --follow")
    options = parser.parse_args(arguments)
    if options.lines is not None and options.lines < 0:
        raise UserError(f"--lines {options.lines}: must be at least 0")
    folder = RunFolder.open(options.run)
    local = load(folder.config).site.scheduler == "local"
    logs = choose(folder, options.rank, local=local)
    if options.follow:
        lines = 20 if options.lines is None else options.lines
        try:
            state = follow(folder, logs, lines, sys.stdout)
        except KeyboardInterrupt:  # how a person stops to follow
            return EXIT_DONE
        print(f"{folder}: {state.word}{f': {state.why}' if state.why else ''}", file=sys.stderr)
        return EXIT_DONE
    shown = [Tail(log, options.lines).copy(sys.stdout) for log in logs]
    if not any(shown):
        state = find_out(folder, _ask(folder))
        said = f"{state.word}: {state.why}" if state.why else state.word
        raise UserError(f"{folder} has nothing in {' or '.join(log.name for log in logs)} ({said})")
    return EXIT_DONE


def choose(folder: RunFolder, rank: int | None, *, local: bool) -> list[Path]:
    """The files that tell of a run. Raises UserError for a rank that it does not have."""
    if rank is not None:
        there = sorted(int(path.stem.removeprefix("rank-")) for path in folder.log.glob("rank-*.log"))
        if there and rank not in there:
            raise UserError(f"{folder} has no log of rank {rank}; its ranks are {there[0]} to {there[-1]}")
        return [folder.rank_log(rank)]
    if local:
        return [folder.rank_log(0), folder.job_log]
    began = folder.job_log.exists() or folder.latest_attempt() is not None
    return [folder.job_log] if began else [folder.log / "scheduler.log", folder.job_log]


def follow(
    folder: RunFolder, logs: Sequence[Path], lines: int, out: TextIO, *, sleep: Callable[[float], None] = time.sleep
) -> State:
    """Copy what the logs have and get to `out` until the run is final; returns its last state.

    Raises UserError for a run that nobody started: nothing would ever come.
    """
    tails = [Tail(log, lines) for log in logs]
    ask = _ask(folder)
    every_s = LOOK_EVERY_S if ask is None else ASK_EVERY_S
    waited_s = every_s
    state = None
    while True:
        if waited_s >= every_s:
            state, waited_s = find_out(folder, ask), 0.0
        for tail in tails:  # after the question: what is written before the end is shown
            tail.copy(out)
        assert state is not None, "it was asked for before the first wait"
        if state.word == "not submitted" and not folder.is_running():
            raise UserError(f"{folder} was never started, so there is nothing to follow")
        if state.final:
            return state
        sleep(LOOK_EVERY_S)
        waited_s += LOOK_EVERY_S


def _ask(folder: RunFolder) -> Ask | None:
    """What to ask of the run's jobs; None on this machine."""
    name = load(folder.config).site.scheduler
    return None if name == "local" else find(name).ask


UNSHOWN = dict.fromkeys({*range(32), *range(127, 160)} - set(map(ord, "\t\n\r")), "\N{REPLACEMENT CHARACTER}")
"""Characters that would command a terminal: what ranks print may name files of others."""


class Tail:
    """What is new in a file, that may not be there yet, or be written anew."""

    def __init__(self, path: Path, lines: int | None) -> None:
        """lines: how many of those that are there already to show; None: all."""
        self._path = path
        self._place = self._start(lines)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def copy(self, out: TextIO) -> bool:
        """Copy what came since the last call; returns whether there was any."""
        check_regular(self._path)
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._place:  # written anew
                    self._place = 0
                file.seek(self._place)
                there = False
                while block := file.read(2**16):
                    out.write(self._decoder.decode(block).translate(UNSHOWN))
                    there = True
                self._place = file.tell()
        except FileNotFoundError:
            return False
        except PermissionError as error:
            raise UserError(f"{self._path} cannot be read: {error.strerror}") from None
        if there:
            out.flush()
        return there

    def _start(self, lines: int | None) -> int:
        """Where the last `lines` lines begin."""
        if lines is None:
            return 0
        check_regular(self._path)
        try:
            with self._path.open("rb") as file:
                length = file.seek(0, 2)
                first = max(0, length - END_BYTES)
                file.seek(first)
                kept = file.read().splitlines(keepends=True)[-lines or length + 1 :]
        except FileNotFoundError:
            return 0
        except PermissionError as error:
            raise UserError(f"{self._path} cannot be read: {error.strerror}") from None
        return length - sum(map(len, kept))


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
