"""What became of a run: from its folder first, then from what the scheduler says of its job. Torch-free.

An exit code that the script wrote decides; the queue only tells what is still to come, and why a job that wrote none
ended. A job that nobody knows any more is lost, never running for ever.
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jobs.launchers_words import killed_rank
from jobs.scheduler import Sighting
from pipeline.run_folder import EXIT_DONE, EXIT_SAVED, JOB_ID, RunFolder

Ask = Callable[[str], Sighting]

Word = Literal["not submitted", "waiting", "running", "done", "saved", "failed", "cancelled", "lost", "unknown"]


@dataclass(frozen=True)
class State:
    """A run as a person asks for it."""

    word: Word
    why: str = ""
    """One line: why it waits, failed or was lost; empty where there is nothing to say."""
    job_id: str = ""
    """The job that stands for the run now; a process number on this machine."""

    @property
    def final(self) -> bool:
        """Whether nothing more happens by itself."""
        return self.word in ("done", "saved", "failed", "cancelled", "lost")


def find_out(folder: RunFolder, ask: Ask | None) -> State:
    """The state of a run; ask: what its scheduler says of a job id, None for a run on this machine.

    A run that seems lost is looked at twice: its script may have written its code while the scheduler was asked.
    """
    found = _look(folder, ask)
    return _look(folder, ask) if found.word == "lost" else found


def _look(folder: RunFolder, ask: Ask | None) -> State:
    attempt = folder.latest_attempt()
    code = folder.exit_code(attempt)
    began = _job_of(attempt)
    jobs = jobs_of(folder)
    if attempt is not None and code is not None and _is_over(folder, attempt, code, ask):
        return _ended(folder, attempt, code, began or (jobs[-1] if jobs else ""))
    if attempt is not None and code is not None and code <= 128 and code != EXIT_SAVED and began in jobs:
        jobs = [began]  # those that depend on it do not go on
    seen, job_id = _see(folder, ask, jobs)
    if attempt is None:
        return _before_the_first_attempt(folder, seen, job_id)
    if seen.phase == "running" and (code is None or job_id != began):
        return State("running", "" if began in ("", job_id) else "its script has not begun yet", job_id)
    ending = seen.phase == "running" and code is not None and code <= 128 and code != EXIT_SAVED
    if seen.phase in ("waiting", "running") and not ending:
        return _waiting(seen, job_id, "to go on")
    if seen.phase == "unanswered":
        return State("unknown", seen.reason, job_id)
    if code is not None:
        return _ended(folder, attempt, code, job_id)
    return State("cancelled", job_id=job_id) if folder.cancelled.exists() else State("lost", _lost(seen), job_id)


def jobs_of(folder: RunFolder) -> list[str]:
    """The jobs that may still do something: of the newest submission, and one whose script began and has not ended."""
    attempt, jobs = folder.latest_attempt(), folder.job_ids()
    began = _job_of(attempt)
    return [began, *jobs] if jobs and began and began not in jobs and folder.exit_code(attempt) is None else jobs


def _job_of(attempt: Path | None) -> str:
    """The job that opened an attempt; empty where it did not come to say so."""
    try:
        said = (attempt / "job_id").read_text().strip() if attempt else ""
    except (OSError, UnicodeDecodeError):
        return ""
    return said if JOB_ID.fullmatch(said) else ""


def _is_over(folder: RunFolder, attempt: Path, code: int, ask: Ask | None) -> bool:
    """Whether the newest attempt's exit code says all, so that no scheduler need be asked: thousands of old runs.

    A code of a signal does not, nor one of which nobody said the cause: a scheduler starts a job again whose node
    failed. Nor does one that a later submission followed. Dependent jobs that still stand in the queue do not matter:
    their script ends at once.
    """
    if ask is None:
        return True
    began, jobs = _job_of(attempt), folder.job_ids()
    if jobs and began not in jobs:
        return code == EXIT_DONE and not began
    if folder.cancelled.exists() or code == EXIT_DONE:
        return True
    if code == EXIT_SAVED:
        return bool(folder.not_again(attempt))
    return code <= 128 and bool(folder.errors())


def _ended(folder: RunFolder, attempt: Path, code: int, job_id: str) -> State:
    """What an exit code means once nothing more is to come."""
    if code == EXIT_DONE:
        return State("done", job_id=job_id)
    if folder.cancelled.exists():
        return State("cancelled", job_id=job_id)
    if code == EXIT_SAVED:
        return State("saved", folder.not_again(attempt) or "it is not started again by itself", job_id)
    return State("failed", _failure(folder, code), job_id)


def _see(folder: RunFolder, ask: Ask | None, jobs: list[str]) -> tuple[Sighting, str]:
    """What the scheduler says of the run's jobs: of those submitted together, the one that runs or comes next."""
    if ask is None:
        return Sighting("running" if folder.is_running() else "absent"), _job_of(folder.latest_attempt())
    if not jobs:
        return Sighting("absent"), ""
    seen = [(ask(job_id), job_id) for job_id in jobs]
    for phase in ("running", "waiting", "unanswered"):
        for sighting, job_id in seen:
            if sighting.phase == phase:
                return sighting, job_id
    return seen[-1] if len(seen) == 1 else max(seen, key=lambda one: bool(one[0].reason))


def _before_the_first_attempt(folder: RunFolder, seen: Sighting, job_id: str) -> State:
    if not job_id:
        return State("not submitted")
    if seen.phase == "waiting":
        return _waiting(seen, job_id, "to start")
    if seen.phase == "running":
        return State("running", "its script has not begun yet", job_id)
    if seen.phase == "unanswered":
        return State("unknown", seen.reason, job_id)
    if folder.cancelled.exists():
        return State("cancelled", job_id=job_id)
    said = folder.last_words(folder.log / "scheduler.log")
    return State("lost", "; ".join(filter(None, ["ended before its script began", seen.reason, said])), job_id)


def _waiting(seen: Sighting, job_id: str, what: str) -> State:
    if seen.never:
        return State("waiting", f"cannot run as it is: {seen.reason or seen.word}", job_id)
    return State("waiting", f"{what}: {seen.reason}" if seen.reason else what, job_id)


def _lost(seen: Sighting) -> str:
    why = ": ".join(filter(None, [seen.word, seen.reason]))
    return f"its job ended without a word ({why})" if why else "its job ended without a word, and the queue forgot it"


def _failure(folder: RunFolder, code: int) -> str:
    """Why a run failed, in one line: of a rank that was killed, what a rank or the script said, else the log's end."""
    said = folder.end_of(folder.job_log)
    killed = killed_rank(said.rpartition("\njob ")[2]) if code > 128 else ""
    words = [*filter(None, [killed]), *folder.errors()[:1]]
    if not words and code == 128 + signal.SIGTERM:  # what mpirun says then is of the ranks that it ended
        words = ["ended from outside (TERM), by a cancel or the site"]
    words = words or [*filter(None, [folder.last_words(folder.job_log)])]
    return ": ".join([f"exit code {code}", "; ".join(words)] if words else [f"exit code {code}"])
