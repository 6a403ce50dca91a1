"""Run folders as runs leave them, made by hand, and a scheduler that says what a test wants."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from jobs.compose import compose
from jobs.scheduler import Scheduler, Sighting
from pipeline.config import save
from pipeline.run_folder import RunFolder

SLURM = ("exp=exp5", "site=slurm", "data.path=/imagenet", "nodes=16")
"""Exp. 5 on 16 nodes of 8: 2,010 updates."""

RESULT = {"complete": True, "updates": 2010, "top1": 96.8, "images_per_s": 1700.0}
"""What is read of a result.json."""


def make_run(path: Path, words: Sequence[str] = SLURM, jobs: Sequence[str] = ()) -> RunFolder:
    """A run folder, and the jobs of its one submission."""
    folder = RunFolder.create(path)
    save(compose(words), folder.config)
    if jobs:
        folder.note_submission("slurm", jobs)
    return folder


def add_attempt(folder: RunFolder, job_id: str, code: int | None = None, **files: str) -> Path:
    """The next attempt, by `job_id`; with its exit code where it came to write one."""
    attempt = folder.attempts / str(len(list(folder.attempts.iterdir())))
    attempt.mkdir()
    (attempt / "job_id").write_text(job_id + "\n")
    if code is not None:
        (attempt / "exit").write_text(f"{code}\n")
    for name, text in files.items():
        (attempt / name).write_text(text)
    return attempt


def add_updates(folder: RunFolder, times_s: Mapping[int, float], more: str = "") -> None:
    """Lines of metrics.jsonl: the time of each update since its attempt began. more: what stands behind them."""
    lines = [{"update": update, "time_s": time_s, "loss": 1.5} for update, time_s in times_s.items()]
    with folder.metrics.open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines) + more)


class Answers:
    """A scheduler of which only questions are asked. It knows no job but those of `seen`."""

    def __init__(self, seen: Mapping[str, Sighting] | Sighting) -> None:
        self._seen = seen
        self.asked: list[str] = []

    def ask(self, job_id: str) -> Sighting:
        self.asked.append(job_id)
        return self._seen if isinstance(self._seen, Sighting) else self._seen.get(job_id, Sighting("absent"))

    def __call__(self, name: str) -> Scheduler:  # noqa: ARG002 - as jobs.scheduler.find
        return cast(Scheduler, self)


def no_scheduler(*_: Any) -> Any:
    raise AssertionError("no scheduler is asked here")
