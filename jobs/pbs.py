"""PBS Professional and OpenPBS: options, words for states, submitit executor.

The script goes to qsub as a command (`-- /bin/bash script`): given as a script it would run below a shell of PBS's own,
which a signal ends. So options stand on the command line; their #PBS lines are for the reader and for `qsub job.sh`.
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from jobs.executor import BatchEnvironment, BatchExecutor, BatchJob, QueueWatcher
from jobs.job import Job
from jobs.scheduler import Parts, Scheduler, Sighting, call, words
from jobs.script import wrapped
from pipeline.config.wall_time import clock
from pipeline.errors import UserError

UNKNOWN_JOB, FINISHED_JOB = 153, 35
"""Exit codes of qstat and qdel for an id that the server does not know, and for one that is done."""

WAITING = {"Q": "queued", "H": "held", "W": "waits for its time", "T": "moves", "M": "moved", "S": "suspended"}
RUNNING = {"R": "running", "E": "ends", "B": "array has begun"}

KILLED = {
    -1: "its start failed before its files were set up",
    -2: "its start failed after its files were set up",
    -3: "its start failed, to be tried again",
    -4: "its node was started anew",
    -11: "it was put back into the queue",
    -14: "one of its nodes failed",
    -20: "its first node failed",
    -26: "exceeded its virtual memory",
    -27: "exceeded its memory",
    -28: "exceeded its processor time",
    -29: "exceeded its wall time",
}
"""Exit_status below 0, which PBS gives by itself, as its job.h has them."""


class Pbs(Scheduler):
    """PBS with qstat's JSON (PBS Professional 14, OpenPBS); tried with OpenPBS 23.06."""

    name = "pbs"
    title = "PBS"
    prefix = "#PBS"
    programs = ("qsub", "qstat", "qdel")

    def options(self, job: Job) -> list[str]:
        site, asked = job.config.site, job.allocation
        found = [f"-N {job.name}"]
        if site.account is not None and site.account_option is None:
            found.append(f"-P {site.account}")
        queue = site.reservation or site.queue  # a reservation is a queue to PBS
        if queue is not None:
            found.append(f"-q {queue}")
        found.append(f"-l {_classic(job) if site.classic_nodes else _select(job)}")
        found += ["-l place=scatter"] if site.scatter else []
        found += [f"-l walltime={clock(asked.wall_time_s)}", "-j oe", f"-o {job.scheduler_log}", "-r y", "-m n"]
        return [*found, *site.extra_directives]

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
        found = ["qsub"]
        if site.account is not None and site.account_option is not None:
            found += [site.account_option, site.account]
        found += [word for option in self.options(job) for word in option_words(option)]
        if after is not None:
            found += ["-W", f"depend=afternotok:{after}"]
        if elements is not None:
            found += ["-J", f"0-{elements - 1}"]
        return [*found, "--", "/bin/bash", str(script), *arguments]

    def read_job_id(self, printed: str) -> str:
        found = re.search(r"^(\d+(\[\])?\.\S+)$", printed.strip(), re.MULTILINE)
        if found is None:
            raise UserError(f"qsub printed no job id: {' '.join(printed.split())}")
        return found[1]

    def element(self, array_id: str, index: int) -> str:
        return array_id.replace("[]", f"[{index}]", 1)

    @property
    def array_index(self) -> str:
        return "$PBS_ARRAY_INDEX"

    def parts(self, job: Job) -> Parts:
        again = wrapped(self.submit_command(job, job.folder.script), 90)
        return Parts(
            job_id="""
job_id=${PBS_JOBID:-}
PATH=${PBS_O_PATH:+$PBS_O_PATH:}$PATH  # a job's own has not even PBS's commands
""",
            hosts="awk '!seen[$0]++' \"$PBS_NODEFILE\"",
            start_again=f"""
if next=$({again} 2>&1); then
    printf '{{"scheduler": "pbs", "job_ids": ["%s"], "submitted_at": %s}}\\n' "$next" "$(date +%s)" \\
        >> "$run_folder/submissions.jsonl"
else
    not_again "PBS does not start it again: $next"
fi
""",
            ends_the_job=False,
            host_file=True,
        )

    def ask(self, job_id: str) -> Sighting:
        try:
            done = call(["qstat", "-x", "-f", "-F", "json", job_id])
        except UserError as error:
            return Sighting("unanswered", reason=str(error))
        if done.returncode in (UNKNOWN_JOB, FINISHED_JOB) or "Unknown Job" in done.stderr:
            return Sighting("absent")
        if done.returncode:
            return Sighting("unanswered", reason=words(done))
        return sighting(read_record(done.stdout, job_id))

    def cancel_command(self, job_id: str) -> list[str]:
        return ["qdel", job_id]

    def version_command(self) -> list[str]:
        return ["qstat", "-B", "-f"]


def option_words(option: str) -> list[str]:
    """The words of an option that stands on one line of a script: its name, and the rest as one word."""
    name, _, value = option.partition(" ")
    return [name, value.strip()] if value.strip() else [name]


def read_record(printed: str, job_id: str) -> dict[str, object]:
    """The record of one job in qstat's JSON.

    Some versions print JSON that is none where a variable holds odd characters: then the few fields that matter are
    read from the text.
    """
    try:
        jobs = json.loads(printed)["Jobs"]
        record: dict[str, object] = dict(jobs.get(job_id) or next(iter(jobs.values()), {}))
        return record
    except (ValueError, AttributeError, LookupError, TypeError):
        fields = ("job_state", "comment", "Exit_status", "Hold_Types")
        found = {name: re.search(rf'"{name}":\s*"?((?:[^"\\,\n]|\\.)*)', printed) for name in fields}
        return {name: match[1].strip() for name, match in found.items() if match}


def sighting(record: dict[str, object]) -> Sighting:
    """What a record of qstat means."""
    state, comment = str(record.get("job_state", "")), str(record.get("comment", ""))
    if state not in (*WAITING, *RUNNING, "F", "X"):
        return Sighting("unanswered", state, f"qstat's answer is not understood (job_state {state or 'missing'})")
    if state in WAITING:
        dependent = "depend" in record
        held = state == "H" and not dependent
        reason = comment.removeprefix("Not Running: ").strip()
        reason = reason or ("after another job" if dependent else "held" if held else "")
        return Sighting("waiting", state, reason, never=held or comment.startswith("Can Never Run"))
    if state in RUNNING:
        return Sighting("running", state)
    if "Exit_status" not in record:
        return Sighting("ended", state, "deleted before it ran" if "terminated" in comment else comment)
    code = int(str(record["Exit_status"]))
    if code in KILLED:
        return Sighting("ended", state, KILLED[code])
    if code > 256:  # PBS adds 256 to the number of the signal
        return Sighting("ended", state, f"ended by signal {code - 256}")
    return Sighting("ended", state, f"exit code {code}" if code else "")


def _select(job: Job) -> str:
    """One chunk a node; a chunk's processors are given only where the site wants to be asked."""
    asked = job.allocation
    chunk = [f"select={asked.nodes}"]
    if asked.cores_per_node is not None:
        chunk.append(f"ncpus={asked.cores_per_node}")
    chunk.append(f"mpiprocs={asked.workers_per_node}")
    if asked.gpus_per_node:
        chunk.append(f"ngpus={asked.gpus_per_node}")
    return ":".join(chunk)


def _classic(job: Job) -> str:
    return f"nodes={job.allocation.nodes}:ppn={job.allocation.workers_per_node}"


class PbsWatcher(QueueWatcher):
    scheduler = Pbs()


class PbsJob(BatchJob):
    scheduler = Pbs()
    watcher = PbsWatcher()


class PbsEnvironment(BatchEnvironment):
    _env: ClassVar[dict[str, str]] = {"job_id": "PBS_JOBID", "node": "PBS_NODENUM", "num_tasks": "TORUS224_WORLD_SIZE"}

    def under(self) -> bool:
        return "PBS_JOBID" in os.environ


class PbsExecutor(BatchExecutor):
    scheduler = Pbs()
    job_class = PbsJob


SCHEDULER = Pbs()
EXECUTOR = PbsExecutor
