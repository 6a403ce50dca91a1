"""A job: a checked configuration, its plan, its run folder and the machines it asks for. Torch-free."""

import re
from dataclasses import dataclass
from pathlib import Path

from jobs.allocation import Allocation, allocate
from pipeline.config import Config, Plan, make_plan
from pipeline.config.site_checks import shown
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder

NAME_CHARACTERS = 15
"""Job names of older PBS servers are no longer."""

PATH = re.compile(r"[A-Za-z0-9_./@+=-]+")
"""Paths that every scheduler and container takes as they are: no blank, no comma or colon, nothing that is expanded."""


@dataclass(frozen=True)
class Job:
    """One run as a scheduler sees it."""

    config: Config
    plan: Plan
    folder: RunFolder
    repository: Path
    allocation: Allocation

    @property
    def name(self) -> str:
        """The job's name in the queue."""
        return f"t224-{safe_name(self.config.experiment)}"[:NAME_CHARACTERS]

    @property
    def scheduler_log(self) -> Path:
        """What the scheduler itself, or the script before it redirects its output, has to say."""
        return self.folder.log / "scheduler.log"


def make_job(config: Config, folder: RunFolder, repository: Path) -> Job:
    """The job of a run. Raises UserError where a scheduler could not be asked for it."""
    check_path("run.dir", folder.path)
    check_path("the repository's path", repository)
    plan = make_plan(config)
    return Job(config, plan, folder, repository, allocate(config, plan))


def check_path(key: str, path: Path) -> None:
    """Raise UserError for a path that a scheduler or a container would read otherwise than it stands."""
    if not PATH.fullmatch(str(path)):
        raise UserError(
            f"{key} {shown(str(path))}: paths of a batch job hold letters, digits and _./@+=- only, since schedulers "
            "and containers read other characters in their own ways; take another"
        )


def safe_name(text: str) -> str:
    """`text` in characters that every scheduler and file system takes, not empty and not too long."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.")[:60] or "run"
