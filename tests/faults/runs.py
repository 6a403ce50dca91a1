"""Runs of `make train` that meet a fault: started, struck, watched to their end, and started again."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.run_processes import processes
from pipeline.metrics import newest_lines
from pipeline.run_folder import RunFolder
from tests.faults.table import Row, note
from tests.jobs.test_make import environment, the_error

TIMEOUT_S = 5
"""allreduce.timeout_s of these runs."""

EVERY = 10
"""Updates between two checkpoints."""


@dataclass(frozen=True)
class Struck:
    """A run that has ended of a fault."""

    done: "subprocess.CompletedProcess[str]"
    folder: RunFolder
    stop_s: float
    """From the fault to its end."""

    @property
    def line(self) -> str:
        """The one error line that was printed."""
        return the_error(self.done)

    def lost_updates(self) -> int:
        """Updates in its records that are in no checkpoint."""
        lines, _ = newest_lines(self.folder.metrics)
        return max(0, (lines[-1]["update"] if lines else 0) - max(self.folder.saved_updates(), default=0))

    def row(self, fault: str, again: str) -> None:
        """Leave its row for the table of faults."""
        note(Row(fault, self.line, self.stop_s, self.lost_updates(), again))


def words_of(folder: RunFolder, *more: str) -> str:
    """ARGS of a run that saves often and meets a lost worker soon."""
    own = [f"run.dir={folder.path}", f"allreduce.timeout_s={TIMEOUT_S}", f"run.checkpoint_every_updates={EVERY}"]
    return " ".join([*own, "run.tensorboard=false", *more])


def strike(
    repository: Path,
    folder: RunFolder,
    act: Callable[[], object],
    *more: str,
    workers: int = 1,
    inside: Callable[[Sequence[str]], list[str]] = list,
    when: Callable[[], bool] | None = None,
    variables: Mapping[str, str] | None = None,
    seen: RunFolder | None = None,
) -> Struck:
    """Start a run, `act` when it is in full swing, and wait for its end.

    more: overrides. inside: where the command runs. when: what `act` waits for; None: a first checkpoint.
    variables: of the environment. seen: where this process finds the folder that the run has; None: the same.
    """
    found = seen or folder
    ready = when or (lambda: bool(found.saved_updates()))
    command = ["make", "train", "EXP=5", f"WORKERS={workers}", f"ARGS={words_of(folder, *more)}"]
    with subprocess.Popen(
        inside(command), cwd=repository, env=environment() | dict(variables or {}),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        wait_until(lambda: process.poll() is not None or ready())
        began_s = time.monotonic()
        act()
        output, errors = process.communicate(timeout=120)
    took_s = time.monotonic() - began_s
    return Struck(subprocess.CompletedProcess(command, process.returncode, output, errors), found, took_s)


def go_on(
    repository: Path,
    folder: RunFolder,
    inside: Callable[[Sequence[str]], list[str]] = list,
    seen: RunFolder | None = None,
) -> str:
    """Start a run again for one update beyond its newest checkpoint; says from where. inside, seen: as of `strike`."""
    found = seen or folder
    saved = max(found.saved_updates(), default=0)
    command = ["make", "train", f"RESUME={folder.path}", f"ARGS=run.stop_after_updates={saved + 1}"]
    done = subprocess.run(
        inside(command), cwd=repository, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (f"going on after update {saved} of " in done.stdout) == (saved > 0)
    assert found.saved_updates()[-1] == saved + 1
    return "from its newest checkpoint" if saved else "from the beginning: no checkpoint was due yet"


def leaves_nothing(folder: RunFolder, seen: RunFolder | None = None) -> None:
    """No process and no segment of a run's last attempt is there."""
    wait_until(lambda: processes(folder) == [])
    assert not list(Path("/dev/shm").glob(f"torus224-mpi-{os.getuid()}-{script_of(seen or folder)}"))


def script_of(folder: RunFolder) -> int:
    """What the newest attempt's script calls itself."""
    attempt = folder.latest_attempt()
    assert attempt is not None
    return int((attempt / "job_id").read_text())


def send(number: signal.Signals, pid: int | None) -> None:
    """Signal a process that must be there."""
    assert pid is not None
    os.kill(pid, number)


def exit_code(folder: RunFolder) -> int | None:
    return folder.exit_code(folder.latest_attempt())


def has_begun(folder: RunFolder) -> bool:
    return folder.metrics.exists() and folder.metrics.stat().st_size > 0


def wait_until(is_so: Callable[[], bool], *, every_s: float = 0.1) -> None:
    ends_s = time.monotonic() + 90
    while time.monotonic() < ends_s:
        if is_so():
            return
        time.sleep(every_s)
    raise AssertionError("not within a minute and a half")
