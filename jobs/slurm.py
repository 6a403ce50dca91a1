"""SLURM: its options, its words for states, its submitit executor.

States come from squeue, which knows a job until some minutes after its end, then from sacct where the site has
accounting; where both are silent, the run folder decides.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from jobs.executor import BatchEnvironment, BatchExecutor, BatchJob, QueueWatcher
from jobs.job import Job
from jobs.scheduler import Parts, Scheduler, Sighting, call, words
from pipeline.config.wall_time import clock
from pipeline.errors import UserError

WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")
RUNNING = ("RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED", "RESIZING")

ENDED = (
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE",
    "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL",
)  # fmt: skip

NEVER = (
    "BadConstraints", "DependencyNeverSatisfied", "InvalidAccount", "InvalidQOS", "JobHeldAdmin", "JobHeldUser",
    "PartitionNodeLimit", "PartitionTimeLimit", "ReqNodeNotAvail", "AssocGrpCPULimit", "AssocMaxNodePerJobLimit",
    "QOSMaxNodePerJobLimit", "QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit", "JobLaunchFailure",
    "AccountNotAllowed", "QOSNotAllowed", "launch_failed_requeued_held", "job_requeued_in_held_state",
)  # fmt: skip
"""Reasons that do not pass by themselves."""


WORDS = (*WAITING, *RUNNING, *ENDED)


class Slurm(Scheduler):
    """SLURM 20.11 and newer; tried with 22.05."""

    name = "slurm"
    title = "SLURM"
    prefix = "#SBATCH"
    programs = ("sbatch", "squeue", "scancel", "scontrol")

    def options(self, job: Job) -> list[str]:
        site, asked = job.config.site, job.allocation
        found = [
            f"--job-name={job.name}",
            f"--nodes={asked.nodes}",
            f"--ntasks-per-node={asked.workers_per_node}",
            f"--time={clock(asked.wall_time_s)}",
        ]
        if asked.cores_per_node is not None:
            found.append(f"--cpus-per-task={max(1, asked.cores_per_node // asked.workers_per_node)}")
        if asked.gpus_per_node:
            found.append(f"--gres=gpu:{asked.gpus_per_node}")
        if site.account is not None and site.account_option is None:
            found.append(f"--account={site.account}")
        if site.queue is not None:
            found.append(f"--partition={site.queue}")
        if site.reservation is not None:
            found.append(f"--reservation={site.reservation}")
        return [
            *found,
            "--requeue",
            "--open-mode=append",
            f"--output={job.scheduler_log}",
            "--export=HOME,USER,LOGNAME,SHELL,PATH,LANG",
            *site.extra_directives,
        ]

    def submit_command(
        self,
        job: Job,
        script: Path,
        arguments: Sequence[str] = (),
        *,
        after: str | None = None,
        elements: int | None = None,
    ) -> list[str]:
        found = ["sbatch", "--parsable"]
        if job.config.site.account is not None and job.config.site.account_option is not None:
            found += [job.config.site.account_option, job.config.site.account]
        if after is not None:
            found += [f"--dependency=afternotok:{after}", "--kill-on-invalid-dep=yes"]
        if elements is not None:
            found.append(f"--array=0-{elements - 1}")
        return [*found, str(script), *arguments]

    def read_job_id(self, printed: str) -> str:
        found = re.search(r"^(\d+)(;\S+)?$", printed.strip(), re.MULTILINE)
        if found is None:
            raise UserError(f"sbatch printed no job id: {' '.join(printed.split())}")
        return found[1]

    def element(self, array_id: str, index: int) -> str:
        return f"{array_id}_{index}"

    @property
    def array_index(self) -> str:
        return "$SLURM_ARRAY_TASK_ID"

    def parts(self, job: Job) -> Parts:  # noqa: ARG002
        return Parts(
            job_id="""
job_id=${SLURM_JOB_ID:-}
[ -z "${SLURM_ARRAY_JOB_ID:-}" ] || job_id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
unset SLURM_EXPORT_ENV  # it would keep the launcher's daemons from their environment
""",
            hosts='scontrol show hostnames "$SLURM_JOB_NODELIST"',
            start_again="""
said=$(scontrol requeue "$job_id" 2>&1) || not_again "SLURM does not start it again: $said"
""",
            ends_the_job=True,
            host_file=False,
        )

    def ask(self, job_id: str) -> Sighting:
        try:
            queue = call(["squeue", "--noheader", "--states=all", "--format=%T|%r", f"--jobs={job_id}"])
            if queue.returncode == 0 and queue.stdout.strip():
                state, reason = row(queue.stdout)
                return sighting(state, "" if reason == "None" else reason)
            if queue.returncode and "Invalid job id" not in queue.stderr:
                return Sighting("unanswered", reason=words(queue))
            books = call(["sacct", "-X", "--noheader", "--parsable2", "--format=State,ExitCode", f"--jobs={job_id}"])
        except UserError as error:
            return Sighting("unanswered", reason=str(error))
        if books.returncode or not books.stdout.strip():  # no accounting here, or a job from before it
            return Sighting("absent")
        state, code = row(books.stdout)
        return sighting(state, f"exit code {code.partition(':')[0]}" if not code.startswith("0") else "")

    def cancel_command(self, job_id: str) -> list[str]:
        return ["scancel", job_id]

    def version_command(self) -> list[str]:
        return ["scontrol", "show", "config"]

    def test_command(self, job: Job, script: Path) -> list[str] | None:
        return ["sbatch", "--test-only", *self.submit_command(job, script)[2:]]


def row(printed: str) -> tuple[str, str]:
    """The last row of a listing with two columns that begins with a state of SLURM's: a site may print more."""
    rows = [line.partition("|") for line in printed.splitlines()]
    known = [(state, rest) for state, bar, rest in rows if bar and (state.split() or [""])[0] in WORDS]
    return known[-1] if known else (" ".join(printed.split())[:80], "")


def sighting(state: str, reason: str) -> Sighting:
    """What squeue's or sacct's word for a state means. `CANCELLED by 0` is sacct's."""
    word = state.split()[0] if state.split() else ""
    if word in WAITING:
        return Sighting("waiting", word, reason, never=reason in NEVER or "never" in reason.lower())
    if word in RUNNING:
        return Sighting("running", word)
    if word not in ENDED:
        return Sighting("unanswered", word, f"SLURM's answer is not understood: {state}")
    return Sighting("ended", word, "" if reason in ("NonZeroExitCode", "") else reason)


class SlurmWatcher(QueueWatcher):
    scheduler = Slurm()


class SlurmJob(BatchJob):
    scheduler = Slurm()
    watcher = SlurmWatcher()


class SlurmEnvironment(BatchEnvironment):
    _env: ClassVar[dict[str, str]] = {
        "job_id": "SLURM_JOB_ID",
        "array_job_id": "SLURM_ARRAY_JOB_ID",
        "array_task_id": "SLURM_ARRAY_TASK_ID",
        "num_nodes": "SLURM_JOB_NUM_NODES",
        "num_tasks": "SLURM_NTASKS",
        "node": "SLURM_NODEID",
        "global_rank": "SLURM_PROCID",
        "local_rank": "SLURM_LOCALID",
    }

    def under(self) -> bool:
        return "SLURM_JOB_ID" in os.environ


class SlurmExecutor(BatchExecutor):
    scheduler = Slurm()
    job_class = SlurmJob


SCHEDULER = Slurm()
EXECUTOR = SlurmExecutor
