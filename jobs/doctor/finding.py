"""What a check found: one line, and what programs answer that a check asks. Torch-free."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jobs.job import Job
from jobs.scheduler import call, words
from jobs.script import load_modules
from pipeline.config import Config, Plan
from pipeline.errors import UserError

Level = Literal["ok", "warn", "FAIL", "skip"]


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    what: str
    """What was looked at, in a few words."""
    level: Level
    found: str
    """What was found; of a check that cannot be made here, why."""
    needed: str = ""
    mend: str = ""
    """How to mend it, or what else there is to know."""
    table: Sequence[str] = ()
    """Lines to show below."""
    verb: str = "found"
    """What `found` was: only given, say; empty where it is a sentence."""

    def __str__(self) -> str:
        found = self.found if self.level == "skip" else f"{self.verb} {self.found}".strip()
        parts = [found, f"needed {self.needed}" if self.needed else "", self.mend]
        lines = [
            f"{self.level:4}  {self.what}: {'; '.join(filter(None, parts))}",
            *(f"      {row}" for row in self.table),
        ]
        return "\n".join(lines)


def judge(what: str, good: bool, found: str, needed: str, mend: str, *, otherwise: Level = "FAIL") -> Finding:
    """A finding that is right or not; `mend` is only said where it is not."""
    return Finding(what, "ok" if good else otherwise, found, needed, "" if good else mend)


@dataclass(frozen=True)
class Subject:
    """What is looked at: a run, before it is submitted."""

    config: Config
    plan: Plan
    job: Job | None
    """None at site=local."""
    stand_ins: frozenset[str] = frozenset()
    """Keys without a value, for which something stands in."""


def ask(command: Sequence[str], *, modules: Sequence[str] = (), timeout_s: float = 60) -> str:
    """What a program prints, of its errors too. Raises UserError where it fails, is not there or does not answer.

    modules: environment modules to load before, as the job does.
    """
    if modules:
        loading = 'fail() { echo "$1" >&2; exit 1; }\n' + load_modules(modules)
        done = call(["bash", "-c", f'{loading}exec "$@"', "bash", *command], timeout_s=timeout_s)
    else:
        done = call(command, timeout_s=timeout_s)
    if done.returncode:
        raise UserError(words(done))
    return f"{done.stdout}\n{done.stderr}".strip()


def first_line(text: str) -> str:
    """The first line with something on it."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "nothing")


def gigabytes(count: float) -> str:
    """A number of bytes for a person."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
