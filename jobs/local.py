"""The site `local`: the run's script, started here and now, and shown as it goes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from jobs.launchers_words import killed_rank
from jobs.script import render
from pipeline.config import Config, Plan
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, EXIT_SAVED, RunFolder


def script(config: Config, plan: Plan, folder: RunFolder, repository: Path) -> str:
    """The job script of a local run."""
    return render(
        folder=folder,
        repository=repository,
        launch=launch_command(
            plan.workers, [config.site.python or sys.executable, "-m", "pipeline.train", str(folder.path)]
        ),
        threads=config.site.threads_per_worker,
        start_timeout_s=config.site.start_timeout_s,
        title=f"Torus224, {config.experiment}, on this machine",
    )


def launch_command(workers: int, command: list[str]) -> list[str]:
    """mpirun for `workers` ranks on one machine, however many cores it has."""
    mpirun = Path(sys.executable).with_name("mpirun")
    return [
        sys.executable, "-m", "jobs.tied",
        str(mpirun), "-n", str(workers), "--oversubscribe", "--bind-to", "none",
        "--output", ":raw",  # bytes as they come: a live bar ends no line
        "--mca", "osc", "^ucx",  # silences a harmless line of the Open MPI wheel
        *command,
    ]  # fmt: skip


def run(folder: RunFolder, *, shown: bool = True) -> int:
    """Start the script, wait for it, return its code. Ctrl-C saves and stops; a second one ends at once.

    shown: whether what ranks print is seen here; their logs have it in any case.
    Raises UserError where a rank failed: its own line, found in the attempt's folder.
    """
    if not Path(sys.executable).with_name("mpirun").exists():
        raise UserError(f"no mpirun beside {sys.executable}: run through make, which sets up .venv, or `make setup`")
    with folder.job_log.open("ab") as log:
        logged = log.tell()
        process = subprocess.Popen(
            ["/bin/bash", str(folder.script)],
            start_new_session=True,
            env=environment() | ({} if shown else {"TORUS224_LIVE": "0"}),
            stdin=subprocess.DEVNULL,
            stdout=None if shown else subprocess.DEVNULL,
            stderr=log,
        )
    code, ended_by_user = _wait(process)
    if code == EXIT_SAVED:
        print(f"saved; go on with: make train RESUME={folder}", flush=True)
    elif ended_by_user:
        saved = folder.saved_updates()
        newest = f"the newest checkpoint is of update {saved[-1]}" if saved else "there is no checkpoint yet"
        raise UserError(f"ended without saving; {newest}; go on with: make train RESUME={folder}")
    elif code != EXIT_DONE:
        raise UserError(_cause(folder, code, logged))
    return code


def _cause(folder: RunFolder, code: int, logged: int) -> str:
    """Why a run failed, in one line: what mpirun said of a rank that was killed, or what a rank said of itself.

    logged: bytes of job.log that earlier attempts wrote.
    """
    killed = killed_rank(folder.job_log.read_bytes()[logged:].decode(errors="replace"))
    errors = folder.errors()
    if errors and folder.hung():
        return errors[0]
    if killed and code > 128:
        return "; ".join([killed, *errors[:1], f"go on with: make train RESUME={folder}"])
    what = f"the job script was ended by signal {-code}" if code < 0 else f"mpirun ended with code {code}"
    return errors[0] if errors else f"{what}; see {folder.job_log}"


def _wait(process: "subprocess.Popen[bytes]") -> tuple[int, bool]:
    """Wait; the first interrupt asks the ranks to save, the next one, TERM and HUP end them.

    The script is in a session of its own, so nobody else tells it. Returns (exit code, whether it was told to end).
    """
    told: list[int] = []

    def tell(number: int) -> None:
        told.append(number)
        process.send_signal(number)

    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: tell(signal.SIGTERM))
    while True:
        try:
            return process.wait(), signal.SIGTERM in told
        except KeyboardInterrupt:
            tell(signal.SIGTERM if told else signal.SIGUSR2)
            if told == [signal.SIGUSR2]:
                print("\nsaving; press Ctrl-C again to end without it", file=sys.stderr, flush=True)


def environment() -> dict[str, str]:
    """What the script inherits: nothing of a scheduler or of another MPI job that this shell may sit in."""
    foreign = ("SLURM_", "SBATCH_", "PMIX_", "PMI_", "OMPI_", "PRTE_", "PBS_", "OPAL_", "TORUS224_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    kept["TORUS224_LIVE"] = "1" if sys.stdout.isatty() else "0"
    if sys.stdout.isatty():
        kept["TORUS224_COLUMNS"] = str(os.get_terminal_size(sys.stdout.fileno()).columns or 100)
    if os.geteuid() == 0:  # Open MPI refuses root unless told twice; in a container there is often nobody else
        kept |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        kept |= {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return kept
