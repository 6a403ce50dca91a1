"""Grid Engine (Son of Grid Engine, Univa, ABCI's): options, words for states, submitit executor."""

import getpass
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree

from jobs.executor import BatchEnvironment, BatchExecutor, BatchJob, QueueWatcher
from jobs.job import Job
from jobs.scheduler import Parts, Scheduler, Sighting, call, words
from pipeline.config.wall_time import clock
from pipeline.errors import UserError

START_AGAIN = 99
"""The exit code upon which Grid Engine puts a job back into its queue."""

FAILURES = {
    "37": "ran out of its limits", "100": "was ended by a signal", "21": "a node did not know it any more",
    "22": "a node did not accept it", "25": "it was put back into the queue",
}  # fmt: skip
"""Some of qacct's `failed` codes, where its own words say less."""


class GridEngine(Scheduler):
    """Grid Engine; tried with Son of Grid Engine 8.1.9."""

    name = "gridengine"
    title = "Grid Engine"
    prefix = "#$"
    programs = ("qsub", "qstat", "qdel")

    def options(self, job: Job) -> list[str]:
        site, asked = job.config.site, job.allocation
        found = [f"-N {job.name}", "-S /bin/bash", *_machines(job), f"-l h_rt={clock(asked.wall_time_s)}"]
        if site.account is not None and site.account_option is None:
            found.append(f"-P {site.account}")
        if site.queue is not None:
            found.append(f"-q {site.queue}")
        if site.reservation is not None:
            found.append(f"-ar {site.reservation}")
        return [*found, "-j y", f"-o {job.scheduler_log}", "-r y", "-m n", *site.extra_directives]

    def submit_command(
        self,
        job: Job,
        script: Path,
        arguments: Sequence[str] = (),
        *,
        after: str | None = None,
        elements: int | None = None,
    ) -> list[str]:
        site = job.config.site
        found = ["qsub", "-terse"]
        if site.account is not None and site.account_option is not None:
            found += [site.account_option, site.account]
        if after is not None:
            found += ["-hold_jid", after]
        if elements is not None:
            found += ["-t", f"1-{elements}"]
        return [*found, str(script), *arguments]

    def read_job_id(self, printed: str) -> str:
        found = re.search(r"^(\d+)(\.\d+-\d+:\d+)?$", printed.strip(), re.MULTILINE)
        if found is None:
            raise UserError(f"qsub printed no job id: {' '.join(printed.split())}")
        return found[1]

    def element(self, array_id: str, index: int) -> str:
        return f"{array_id}.{index + 1}"

    @property
    def array_index(self) -> str:
        return "$((SGE_TASK_ID - 1))"

    def parts(self, job: Job) -> Parts:  # noqa: ARG002
        return Parts(
            job_id="""
job_id=${JOB_ID:-}
[ "${SGE_TASK_ID:-undefined}" = undefined ] || job_id=$job_id.$SGE_TASK_ID
""",
            hosts="awk '!seen[$1]++ {print $1}' \"${SGE_JOB_HOSTLIST:-${PE_HOSTFILE:-/dev/null}}\"",
            start_again=f"status={START_AGAIN}",
            ends_the_job=True,
            host_file=True,
        )

    def ask(self, job_id: str) -> Sighting:
        number, _, task = job_id.partition(".")
        try:
            listing = call(["qstat", "-xml", "-u", getpass.getuser()])
            if listing.returncode:
                return Sighting("unanswered", reason=words(listing))
            if not listing.stdout.lstrip().startswith("<?xml") or "</job_info>" not in listing.stdout:
                return Sighting("unanswered", reason="qstat's answer is not understood")
            state = read_state(listing.stdout, number, task)
            if state is not None:
                return self._waiting_or_running(number, state)
            books = call(["qacct", "-j", number, *(["-t", task] if task else [])])
        except UserError as error:
            return Sighting("unanswered", reason=str(error))
        return read_books(books.stdout) if books.returncode == 0 else Sighting("absent")

    def cancel_command(self, job_id: str) -> list[str]:
        number, _, task = job_id.partition(".")
        return ["qdel", number, *(["-t", task] if task else [])]

    def version_command(self) -> list[str]:
        return ["sh", "-c", "qstat -g c > /dev/null && qstat -help | head -n 1"]  # -help alone asks nobody

    def test_command(self, job: Job, script: Path) -> list[str] | None:
        return ["qsub", "-w", "v", *self.submit_command(job, script)[2:]]

    def _waiting_or_running(self, number: str, state: str) -> Sighting:
        if "qw" not in state and "h" not in state:
            return Sighting("running", state)
        details = call(["qstat", "-j", number])
        reason, never = read_reason(details.stdout), "E" in state
        if state.startswith("h") and "jid_predecessor_list" not in details.stdout:
            reason, never = reason or "held", True
        if not never:  # its remarks tell of now; this is what an empty cluster could do
            verdict = call(["qalter", "-w", "v", number])
            never = "no suitable queues" in verdict.stdout + verdict.stderr
            reason = reason or ("no suitable queues for what it asks" if never else "")
        return Sighting("waiting", state, reason, never=never)


def read_state(listing: str, number: str, task: str) -> str | None:
    """The state of a job, or of one task of an array, in `qstat -xml`; None where it is not there."""
    try:
        rows = list(ElementTree.fromstring(listing).iter("job_list"))  # noqa: S314 - qstat's own words
    except ElementTree.ParseError:
        return None
    found = [row for row in rows if row.findtext("JB_job_number") == number]
    if task:
        found = [row for row in found if _has_task(row.findtext("tasks") or "", int(task))]
    return found[0].findtext("state") if found else None


def _has_task(tasks: str, wanted: int) -> bool:
    """Whether `2`, `1,3` or `2-4:1` names a task; nothing names all."""
    for part in filter(None, tasks.split(",")):
        span = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if span is None:
            continue
        first, last, step = int(span[1]), int(span[2] or span[1]), int(span[3] or 1)
        if wanted in range(first, last + 1, step):
            return True
    return not tasks


def read_reason(details: str) -> str:
    """Why a job waits, from `qstat -j`: its own error, else the scheduler's first remark."""
    error = re.search(r"^error reason\s+\d+:\s+(.*)$", details, re.MULTILINE)
    if error:
        return error[1].strip()
    remark = re.search(r"^scheduling info:\s+(.*)$", details, re.MULTILINE)
    return "" if remark is None or "turned off" in remark[1] else remark[1].strip()


def read_books(books: str) -> Sighting:
    """How a job ended, from `qacct -j`: every start has a record, and every host of a start."""
    records = [dict(re.findall(r"^(\w+)\s+(.*?)\s*$", text, re.MULTILINE)) for text in books.split("=" * 62)]
    newest = max((record.get("start_time", "") for record in records), default="", key=_seconds)
    for fields in (record for record in records if record.get("start_time") == newest):
        number, _, said = fields.get("failed", "0").partition(":")
        if number.strip() not in ("0", ""):
            words = FAILURES.get(number.strip(), said.strip() or f"failed {number.strip()}")
            return Sighting("ended", f"failed {number.strip()}", words)
        if fields.get("exit_status", "0") != "0":
            return Sighting("ended", "done", f"exit code {fields['exit_status']}")
    return Sighting("ended", "done")


def _seconds(clock: str) -> float:
    """Seconds since 1970 of qacct's local time; 0 for what is none."""
    try:
        return time.mktime(time.strptime(clock, "%a %b %d %H:%M:%S %Y"))
    except ValueError:
        return 0.0


def _machines(job: Job) -> list[str]:
    """Whole nodes by the site's own resource, or slots of a parallel environment."""
    site, asked = job.config.site, job.allocation
    if site.node_resource is not None:
        return [f"-l {site.node_resource}={asked.nodes}"]
    if site.parallel_environment is None:
        raise UserError(
            "site.node_resource and site.parallel_environment are both null; Grid Engine gives a job several nodes by "
            "one of them: name it (qconf -spl lists parallel environments)"
        )
    found = [f"-pe {site.parallel_environment} {asked.nodes * (asked.cores_per_node or asked.workers_per_node)}"]
    return found + ([f"-l gpu={asked.gpus_per_node}"] if asked.gpus_per_node else [])


class GridEngineWatcher(QueueWatcher):
    scheduler = GridEngine()


class GridEngineJob(BatchJob):
    scheduler = GridEngine()
    watcher = GridEngineWatcher()


class GridEngineEnvironment(BatchEnvironment):
    _env: ClassVar[dict[str, str]] = {"job_id": "JOB_ID", "num_nodes": "NHOSTS", "num_tasks": "NSLOTS"}

    def under(self) -> bool:
        return "JOB_ID" in os.environ and "SGE_TASK_ID" in os.environ


class GridEngineExecutor(BatchExecutor):
    scheduler = GridEngine()
    job_class = GridEngineJob


SCHEDULER = GridEngine()
EXECUTOR = GridEngineExecutor
