"""The base of all executors: submitit's, with our job script, our exit codes and our run folder.

Of submitit stand: `submit`, batches and arrays, its pickle of what was submitted, `Job` and `JobEnvironment`. Left out,
since they would get in the way: its worker process, its signal handler and requeue (the job script does both), and its
pickled results (a run's result is its folder's). Torch-free.
"""

import os
import time
import uuid
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from submitit.core.core import InfoWatcher, PicklingExecutor
from submitit.core.core import Job as SubmititJob
from submitit.core.job_environment import JobEnvironment
from submitit.core.utils import DelayedSubmission, JobPaths, UncompletedJobError

from jobs import launch, state, task
from jobs.compose import REPOSITORY
from jobs.job import Job, make_job
from jobs.scheduler import Scheduler, call, words
from jobs.script import Batch, quote, render
from pipeline.config import load
from pipeline.errors import UserError
from pipeline.ownership import check_own
from pipeline.run_folder import RunFolder


def script(job: Job, scheduler: Scheduler) -> str:
    """The job script of a run: a pure function, which needs no scheduler."""
    site, asked = job.config.site, job.allocation
    parts = scheduler.parts(job)
    variables = launch.environment(job)
    return render(
        folder=job.folder,
        repository=job.repository,
        launch=launch.command(job, variables, host_file=parts.host_file),
        threads=site.threads_per_worker,
        title=f"Torus224, {job.config.experiment}, {asked.nodes} nodes x {asked.workers_per_node} at {site.name}",
        environment=variables,
        start_timeout_s=site.start_timeout_s,
        batch=Batch(
            directives=[f"{scheduler.prefix} {option}" for option in scheduler.options(job)],
            job_id=parts.job_id,
            hosts=parts.hosts,
            start_again=parts.start_again,
            ends_the_job=parts.ends_the_job,
            nodes=asked.nodes,
            slots=asked.workers_per_node,
            wall_time_s=asked.wall_time_s,
            lead_s=site.requeue.lead_s,
            starts=site.requeue.max,
            chained=site.requeue.how == "chain",
            modules=site.modules,
            require=site.require,
            files=launch.files(job, variables),
            term_saves=site.launcher == "srun",
        ),
    )


def array_script(jobs: Sequence[Job], scheduler: Scheduler) -> str:
    """The script of an array: each element becomes the job script of its own run."""
    directives = "\n".join(f"{scheduler.prefix} {option}" for option in _shared_options(jobs, scheduler))
    scripts = "\n".join(f"    {quote([str(job.folder.script)])}" for job in jobs)
    return f"""#!/bin/bash
{directives}
# Torus224, {len(jobs)} runs: each element of the array is one of them.
scripts=(
{scripts}
)
exec /bin/bash "${{scripts[{scheduler.array_index}]}}" "$@"
"""


def _shared_options(jobs: Sequence[Job], scheduler: Scheduler) -> list[str]:
    """The options of an array: those of its first job, with output that no element shares with another."""
    first = jobs[0]
    return [option.replace(str(first.scheduler_log), "/dev/null") for option in scheduler.options(first)]


def can_share_an_array(one: Job, other: Job, scheduler: Scheduler) -> bool:
    """Whether two jobs ask for the same machines in the same way."""
    options = [
        [option for option in scheduler.options(job) if str(job.scheduler_log) not in option and job.name not in option]
        for job in (one, other)
    ]
    return options[0] == options[1]


class QueueWatcher(InfoWatcher):
    """submitit's view of the queue: one question for one id, never a listing of everything."""

    scheduler: ClassVar[Scheduler]

    def update(self) -> None:
        self._num_calls += 1
        for job_id in self._registered - self._finished:
            seen = self.scheduler.ask(job_id)
            self._info_dict[job_id] = {"State": submitit_state(seen.phase, seen.reason), "Reason": seen.reason}
            if seen.phase in ("ended", "absent"):
                self._finished.add(job_id)
        self._last_status_check = time.time()

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        return self.get_info(job_id, mode=mode).get("State", "UNKNOWN")


def submitit_state(phase: str, reason: str) -> str:
    """A phase in the words that submitit's own methods know."""
    if phase == "ended":
        return "FAILED" if reason else "COMPLETED"
    return {"waiting": "PENDING", "running": "RUNNING", "absent": "NOT_FOUND"}.get(phase, "UNKNOWN")


class BatchJob(SubmititJob[Any]):
    """A submitted run. Its outcome is the run folder's, whatever starts it needed."""

    scheduler: ClassVar[Scheduler]

    @property
    def run_folder(self) -> RunFolder:
        return RunFolder(self.paths.folder.parent)

    def submission(self) -> DelayedSubmission:
        """What was submitted, unpickled. Raises UserError where somebody else could have written the pickle."""
        for folder in (self.run_folder.path, self.paths.folder):
            check_own(folder)
        return super().submission()

    def done(self, force_check: bool = False) -> bool:  # noqa: ARG002
        return state.find_out(self.run_folder, self.scheduler.ask).final

    def cancel(self, check: bool = True) -> None:
        self.run_folder.cancelled.touch()
        done = call(self.scheduler.cancel_command(self.job_id))
        if check and done.returncode:
            raise UserError(f"{self.scheduler.title} does not cancel {self.job_id}: {words(done)}")

    def _get_outcome_and_result(self) -> tuple[str, Any]:
        found = state.find_out(self.run_folder, self.scheduler.ask)
        result = self.run_folder.read_result()
        if found.word == "done":
            return "success", result
        if not found.final or found.word in ("lost", "cancelled", "saved"):
            raise UncompletedJobError(f"job {self.job_id}, {self.run_folder}: {found.word}: {found.why}")
        return "error", found.why


class BatchEnvironment(JobEnvironment):
    """Who am I inside a job. The launcher's own words come first: under mpirun every rank has SLURM_PROCID=0."""

    @abstractmethod
    def under(self) -> bool:
        """Whether this process is inside a job of this scheduler."""

    def activated(self) -> bool:
        return self.under()

    @property
    def num_tasks(self) -> int:
        return _first(("OMPI_COMM_WORLD_SIZE", self._env.get("num_tasks", "")), 1)

    @property
    def global_rank(self) -> int:
        return _first(("OMPI_COMM_WORLD_RANK", "PMIX_RANK", self._env.get("global_rank", "")), 0)

    @property
    def local_rank(self) -> int:
        return _first(("OMPI_COMM_WORLD_LOCAL_RANK", self._env.get("local_rank", "")), 0)

    def _requeue(self, countdown: int) -> None:
        raise NotImplementedError("the job script asks for the new start, never a rank")


def _first(names: Sequence[str], otherwise: int) -> int:
    values = (os.environ.get(name, "") for name in names if name)
    return next((int(value) for value in values if value.isdigit()), otherwise)


class BatchExecutor(PicklingExecutor):
    """Submits run folders: `executor.submit(task.RunFolder(path))`, or several in a batch, which become one array.

    folder: for an array's own script; a single run's lies in its run folder.
    """

    scheduler: ClassVar[Scheduler]
    job_class: type[BatchJob]

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder, max_num_timeout=0)  # new starts are the script's

    @classmethod
    def affinity(cls) -> int:
        return -1 if cls.scheduler.missing() else 2

    def _internal_process_submissions(self, delayed_submissions: list[DelayedSubmission]) -> list[SubmititJob[Any]]:
        jobs = [self._job(one) for one in delayed_submissions]
        elements = None if len(jobs) == 1 else len(jobs)
        chain = self._submit_chain(jobs[0], self._array_file(jobs) if elements else jobs[0].folder.script, elements)
        handles: list[SubmititJob[Any]] = []
        for index, (job, delayed) in enumerate(zip(jobs, delayed_submissions, strict=True)):
            ids = [self.scheduler.element(one, index) for one in chain] if elements else chain
            try:
                job.folder.note_submission(self.scheduler.name, ids)
                job.folder.submission.mkdir(mode=0o700, exist_ok=True)
                delayed.dump(JobPaths(job.folder.submission, job_id=ids[0], task_id=0).submitted_pickle)
            except OSError as error:
                raise UserError(f"{job.folder} cannot be written: {error.strerror}; {self._take_back(chain)}") from None
            handles.append(self.job_class(folder=job.folder.submission, job_id=ids[0]))
        return handles

    def _array_file(self, jobs: Sequence[Job]) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"array-{uuid.uuid4().hex[:8]}.sh"
        path.write_text(array_script(jobs, self.scheduler))
        path.chmod(0o700)
        return path

    def _submit_chain(self, job: Job, path: Path, elements: int | None) -> list[str]:
        """Give a script to the scheduler, and the dependent ones where they are chained; returns the ids, in order."""
        requeue = job.config.site.requeue
        ids = [self.send(self.scheduler.submit_command(job, path, elements=elements))]
        try:
            for _ in range(requeue.max if requeue.how == "chain" else 0):
                command = self.scheduler.submit_command(job, path, ["follow"], after=ids[-1], elements=elements)
                ids.append(self.send(command))
        except UserError as error:
            raise UserError(f"{error}; {self._take_back(ids)}") from None
        return ids

    def _take_back(self, ids: Sequence[str]) -> str:
        """Cancel jobs of which nobody would know; in words, what came of it."""
        left = []
        for job_id in reversed(ids):
            try:
                left += [job_id] if call(self.scheduler.cancel_command(job_id)).returncode else []
            except UserError:
                left.append(job_id)
        return (
            f"still in the queue, to be cancelled by hand: {', '.join(left)}" if left else "nothing stays in the queue"
        )

    def send(self, command: Sequence[str]) -> str:
        """Run a submit command; the id it printed. Raises UserError with the scheduler's own words."""
        try:
            done = call(command)
        except UserError as error:
            raise UserError(f"{error}; look into the queue first: the job may be there") from None
        if done.returncode:
            raise UserError(f"{self.scheduler.title} refuses the job: {words(done)}")
        return self.scheduler.read_job_id(done.stdout)

    def _job(self, delayed: DelayedSubmission) -> Job:
        submitted = delayed.function
        if not isinstance(submitted, task.RunFolder):
            raise TypeError(f"only task.RunFolder can be submitted, not {submitted!r}")
        folder = RunFolder.open(submitted.path)
        check_own(folder.path)
        return make_job(load(folder.config), folder, REPOSITORY)

    def _num_tasks(self) -> int:
        return 1

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        raise NotImplementedError("a run's script is made before it is submitted")

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        raise NotImplementedError("submit_script makes it")

    @staticmethod
    def _get_job_id_from_submission_command(string: str | bytes) -> str:
        raise NotImplementedError("the scheduler reads it")
