"""From checked configurations to jobs in a queue: made, checked against the site, submitted, told of. Torch-free."""

import importlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from jobs import prepare, task
from jobs.allocation import allocate, beyond_limits
from jobs.executor import BatchExecutor, BatchJob, can_share_an_array
from jobs.job import Job, make_job
from jobs.scheduler import Scheduler, find
from pipeline.config import Config, make_plan
from pipeline.config.wall_time import seconds
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder


def make(config: Config, words: Sequence[str], repository: Path) -> Job:
    """The job of a new run, with its run folder. Raises UserError where it could not be submitted from here."""
    check_submittable(config)
    folder = prepare.create(config, words)
    return make_job(config, folder, repository)


def check_submittable(config: Config) -> None:
    """Raise UserError where a run could not be submitted from here, or its site does not grant what it needs."""
    lacking = find(config.site.scheduler).missing()
    if lacking:
        raise UserError(f"site={config.site.name}: {lacking}")
    plan = make_plan(config)
    refusal = beyond_limits(config, plan, allocate(config, plan))
    if refusal:
        raise UserError(refusal)


def submit(jobs: Sequence[Job], arrays: Path) -> None:
    """Give jobs to their schedulers, those that ask for the same machines as one array; says of each id and folder.

    arrays: folder for the scripts of arrays. Where a scheduler refuses some, the others are submitted all the same;
    what was refused is removed, since it is no run, and told of by a UserError at the end.
    """
    waiting, refused = list(jobs), []
    while waiting:
        scheduler = find(waiting[0].config.site.scheduler)
        group = [job for job in waiting if job is waiting[0] or _alike(waiting[0], job, scheduler)]
        try:
            handles = executor(scheduler, arrays)
            submitted = _submit_group(handles, group)
            for job, handle in zip(group, submitted, strict=True):
                say(f"job {handle.job_id} at {job.config.site.name}, run folder: {job.folder}")
                if words := estimated(job.config):
                    say(words)
        except UserError as error:
            for job in group:
                _remove(job.folder)
            names = ", ".join(job.folder.path.name for job in group)
            refused.append(f"{names}: {error}" if len(jobs) > 1 else str(error))
        except BaseException:  # Ctrl-C, most of all: what was not submitted is no run
            for job in waiting:
                _remove(job.folder)
            raise
        waiting = [job for job in waiting if job not in group]
    if refused:
        raise UserError("; ".join(refused))


def estimated(config: Config) -> str:
    """One line on what a run should take, beside the wall time that was asked for; empty where none can be made."""
    from pipeline.estimate.fitted_wall_time import in_starts
    from pipeline.estimate.run import Model  # here: it takes as long as the rest of a command that submits nothing
    from pipeline.report.estimate_tables import in_a_line

    try:
        run = Model(config).run()
    except UserError:
        return ""
    asked = f"{config.site.wall_time}{in_starts(config, run, seconds(config.site.wall_time))}"
    return f"estimate: {in_a_line(run)}; wall time asked for {asked}; make estimate tells more"


def say(line: str) -> None:
    """Print a line; whether somebody reads it must not decide what is submitted."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def executor(scheduler: Scheduler, folder: Path) -> BatchExecutor:
    """The submitit executor of a scheduler: the class EXECUTOR of its module."""
    module = importlib.import_module(type(scheduler).__module__)
    return cast(type[BatchExecutor], module.EXECUTOR)(folder)


def _submit_group(handles: BatchExecutor, group: Sequence[Job]) -> list[BatchJob]:
    if len(group) == 1:
        return [cast(BatchJob, handles.submit(task.RunFolder(group[0].folder.path)))]
    return cast(list[BatchJob], handles.submit_array([task.RunFolder(job.folder.path) for job in group]))


def _alike(one: Job, other: Job, scheduler: Scheduler) -> bool:
    same = one.config.site.scheduler == other.config.site.scheduler
    return same and can_share_an_array(one, other, scheduler)


def _remove(folder: RunFolder) -> None:
    """Take away a new run folder whose job was refused; never one that was submitted before, or in which a run is."""
    if not folder.submissions.exists() and folder.latest_attempt() is None and not folder.saved_updates():
        shutil.rmtree(folder.path, ignore_errors=True)
