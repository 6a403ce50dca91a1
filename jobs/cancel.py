"""End runs for good: `python -m jobs.cancel RUN…`. Torch-free.

A run is marked `cancelled` first, so that its script does not have it started again; then every job of its newest
submission is cancelled, those that wait for the first one's end before it. A run on this machine is ended by TERM to
its script. A run that has ended already is left as it is, and told of: that is no error. Exit code 1 where anything
could not be cancelled; the other runs are cancelled all the same.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.command_line import Parser, fail, run
from jobs.scheduler import Scheduler, call, find, words
from jobs.state import find_out, jobs_of
from pipeline.config import load
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED, RunFolder


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make cancel RUN=…", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    options = parser.parse_args(arguments)
    failures = 0
    for name in options.runs:
        try:
            folder = RunFolder.open(name)
            for line in cancel(folder):
                print(f"{folder}: {line}", flush=True)
        except UserError as error:
            failures += bool(fail(str(error)))
    return EXIT_FAILED if failures else EXIT_DONE


def cancel(folder: RunFolder) -> list[str]:
    """Cancel a run; what was done, a line each. Raises UserError where anything of it may still run."""
    name = load(folder.config).site.scheduler
    scheduler = None if name == "local" else find(name)
    state = find_out(folder, None if scheduler is None else scheduler.ask)
    if state.final:
        return [f"{state.word} already, so there is nothing to cancel"]
    if scheduler is None:
        return [_end_here(folder)]
    if state.word == "not submitted":
        return ["was never submitted, so there is nothing to cancel"]
    unmarked = ""
    try:
        folder.cancelled.touch()
    except OSError as error:
        unmarked = f"the mark that keeps it from starting again cannot be set: {error.strerror}"
    return [*_cancel_jobs(folder, scheduler), *filter(None, [unmarked])]


def _cancel_jobs(folder: RunFolder, scheduler: Scheduler) -> list[str]:
    """Cancel the jobs of the newest submission; again where a script submitted another before it saw the mark."""
    lines: list[str] = []
    faults: list[str] = []
    done: set[str] = set()
    while new := [job_id for job_id in reversed(jobs_of(folder)) if job_id not in done]:
        for job_id in new:
            done.add(job_id)
            try:
                lines.append(_cancel_job(job_id, scheduler))
            except UserError as error:
                faults.append(str(error))
    if faults:
        told = f"; of the others: {', '.join(lines)}" if lines else ""
        raise UserError(f"{folder} is marked as cancelled, but {'; '.join(faults)}{told}")
    return lines


def _cancel_job(job_id: str, scheduler: Scheduler) -> str:
    """Cancel one job; what came of it. Raises UserError where the scheduler does not do it."""
    done = call(scheduler.cancel_command(job_id))
    if not done.returncode:
        return f"job {job_id} cancelled"
    if scheduler.ask(job_id).phase in ("absent", "ended"):
        return f"{scheduler.title} no longer knows job {job_id}"
    raise UserError(f"{scheduler.title} does not cancel {job_id}: {words(done)}")


def _end_here(folder: RunFolder) -> str:
    """Send TERM to the script of a run on this machine; its processes end with it."""
    if not folder.is_running():
        return "not running, so there is nothing to cancel"
    process = _script_process(folder)
    if process is None:
        raise UserError(f"{folder} is running, but no process of this machine is its script; cancel it where it runs")
    folder.cancelled.touch()
    with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
        os.kill(process, signal.SIGTERM)
    return f"process {process} was told to end (TERM)"


def _script_process(folder: RunFolder) -> int | None:
    """The process of the newest attempt's script, if it is that: a number may be another's by now."""
    attempt = folder.latest_attempt()
    try:
        number = int((attempt / "job_id").read_text()) if attempt else 0
        command = os.fsdecode(Path(f"/proc/{number}/cmdline").read_bytes()).split("\0")
        scripts = [word for word in command if Path(word).name == folder.script.name]
        return number if any(folder.script.samefile(script) for script in scripts) else None
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
