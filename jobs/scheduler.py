"""What every scheduler is here: options of a job as data, a few lines of shell, and a thin layer of its commands.

`options`, `submit_command` and `parts` are pure and need no scheduler installed; `ask` and `cancel` call its programs.
To add one, see docs/adding-a-scheduler.md. Torch-free.
"""

import contextlib
import importlib
import os
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from jobs.job import Job
from pipeline.errors import UserError

ANSWER_S = 60
"""A scheduler that takes longer for one command is told of, and not waited for."""

WORDS_LENGTH = 200
"""Letters of what a command said that are told."""

ASIDES = ("info:", "warning:", "traceback ")
"""How lines begin that do not say why a command failed."""

FOREIGN = (
    "SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SACCT_", "PMIX_", "PMI_", "PMI2_", "OMPI_", "PRTE_", "PBS_",
    "OPAL_", "SGE_TASK_", "SGE_JOB_", "SGE_STDOUT_", "SGE_STDERR_", "TORUS224_", "BASH_FUNC_",
)  # fmt: skip
"""Variables of a job that the caller may sit in, of another MPI launch, and shell functions, which break scripts."""

SETTINGS_OF_CLIENTS = ("SLURM_CONF", "PBS_CONF_FILE", "PBS_SERVER", "PBS_DEFAULT", "PBS_EXEC")
"""Where a scheduler's commands find their server: kept, although they look like a job's own."""

Phase = Literal["waiting", "running", "ended", "absent", "unanswered"]


@dataclass(frozen=True)
class Sighting:
    """What a scheduler says of a job."""

    phase: Phase
    """`absent`: it does not know the job (any more). `unanswered`: it could not be asked."""
    word: str = ""
    """Its own word for the state, as PENDING or qw."""
    reason: str = ""
    """Why the job waits or how it ended, in the scheduler's words; empty where it gives none."""
    never: bool = False
    """Whether it waits for something that does not come by itself."""


@dataclass(frozen=True)
class Parts:
    """What is the scheduler's own in a job script: lines of shell, constant but for what options they name."""

    job_id: str
    """Sets job_id."""
    hosts: str
    """Prints the job's hosts, one a line, in order; empty where mpirun knows them and nobody else asks."""
    start_again: str
    """Has the job started again, and may set status, the script's own exit code; its failure is told."""
    ends_the_job: bool
    """Whether start_again ends the job at once: then it comes last, after the exit code; else before it."""
    host_file: bool
    """Whether mpirun needs a host file: where it cannot read the allocation by itself."""


class Scheduler(ABC):
    """One kind of scheduler."""

    name: str
    """As site.scheduler says."""
    title: str
    """As people say."""
    prefix: str
    """What options in a script begin with, as #SBATCH."""
    programs: tuple[str, ...]
    """The commands that are called; the first submits."""

    @abstractmethod
    def options(self, job: Job) -> list[str]:
        """The job's options, one a line of the script, each safe for a shell as it is."""

    @abstractmethod
    def submit_command(
        self,
        job: Job,
        script: Path,
        words: Sequence[str] = (),
        *,
        after: str | None = None,
        elements: int | None = None,
    ) -> list[str]:
        """The command that submits `script` with `arguments`.

        after: id of the job that must have ended without success before this one starts. elements: submit an array of
        so many.
        """

    @abstractmethod
    def read_job_id(self, printed: str) -> str:
        """The id in what the submit command printed. Raises UserError where there is none."""

    @abstractmethod
    def element(self, array_id: str, index: int) -> str:
        """The id of an array's element, counted from 0."""

    @property
    @abstractmethod
    def array_index(self) -> str:
        """A shell expression: the index, counted from 0, inside an element of an array."""

    @abstractmethod
    def parts(self, job: Job) -> Parts:
        """The scheduler's own lines of the job script."""

    @abstractmethod
    def ask(self, job_id: str) -> Sighting:
        """What the scheduler says of a job now."""

    @abstractmethod
    def cancel_command(self, job_id: str) -> list[str]:
        """The command that ends a job or takes it out of the queue."""

    @abstractmethod
    def version_command(self) -> list[str]:
        """A command that reaches the server and prints something of it."""

    def test_command(self, job: Job, script: Path) -> list[str] | None:  # noqa: ARG002
        """The scheduler's own check of a submission without submitting; None where it has none."""
        return None

    def missing(self) -> str:
        """The line for a machine without this scheduler; empty where it is there."""
        absent = [program for program in self.programs if shutil.which(program) is None]
        if not absent:
            return ""
        return (
            f"{', '.join(absent)} not found, so this machine cannot submit to {self.title}; log in to the cluster, or "
            "look at the job with make render"
        )


def find(name: str) -> Scheduler:
    """The scheduler that site.scheduler names: the class SCHEDULER of the module jobs/<name>.py."""
    return cast(Scheduler, importlib.import_module(f"jobs.{name}").SCHEDULER)


def call(
    command: Sequence[str], *, cwd: Path | None = None, timeout_s: float | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run one of a scheduler's commands; it inherits nothing of a job that the caller may sit in.

    timeout_s: how long it may take; None: ANSWER_S.

    Raises UserError where it cannot be run or does not answer; a non-zero code is the caller's.
    """
    limit_s = ANSWER_S if timeout_s is None else timeout_s
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment(),
            cwd=cwd,
            start_new_session=True,
        ) as process:
            _running[process.pid] = process
            try:
                output, errors = process.communicate(timeout=limit_s)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # with what it has started: that may hold the pipes open
                raise
            finally:
                del _running[process.pid]
            return subprocess.CompletedProcess(command, process.returncode, output, errors)
    except FileNotFoundError:
        raise UserError(f"{command[0]} not found; log in to the cluster, or load its module") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"{command[0]} did not answer within {limit_s:g} s; try again later") from None
    except OSError as error:
        raise UserError(f"{command[0]} cannot be run: {error.strerror}") from None


_running: dict[int, "subprocess.Popen[str]"] = {}
"""Commands that are waited for, of all threads, by process number."""


def end_calls() -> None:
    """End the commands for whose answers other threads wait; `call` returns there."""
    for pid in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def environment() -> dict[str, str]:
    """The caller's environment without what belongs to a job or an MPI launch that it may sit in."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return kept | {name: os.environ[name] for name in SETTINGS_OF_CLIENTS if name in os.environ}


def words(done: "subprocess.CompletedProcess[str]") -> str:
    """What a command said, in one line that is not long: the first that tells something, of its errors or its output.

    Of Python's traceback that is the last.
    """
    said = [" ".join(line.split()) for line in (done.stderr.strip() or done.stdout.strip()).splitlines()]
    said = [line for line in said if line]
    if any(line.startswith("Traceback ") for line in said):
        said.reverse()
    telling = [line for line in said if line.count(" ") > 1 and not line.lower().startswith(ASIDES)]
    line = next(iter(telling or said), f"it ended with code {done.returncode}")
    return line if len(line) <= WORDS_LENGTH else line[:WORDS_LENGTH].rpartition(" ")[0] + " …"
