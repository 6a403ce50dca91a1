"""What a test's SLURM and its Grid Engine have in common: a head host and compute hosts, on one machine.

The daemons live on emulated hosts. All files of theirs are in a folder that those hosts have in memory for themselves,
so that however a test ends, the kernel takes processes and files together. What jobs are to leave belongs elsewhere.
"""

import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from bench import emulated_hosts
from bench.emulated_hosts import EmulatedHosts
from jobs import local

HEAD = 0
START_S = 120
"""Two cores and much else to do may make a start slow; waiting long costs nothing where it is not."""

LOG_LINES = 20
"""Of each daemon's log, in an error's text."""

OWN_FOLDER = "/dev/shm"
"""Every host has this one for itself, so jobs' temporary files go there. /tmp is shared, unlike on real nodes."""

JOB_ENVIRONMENT = {
    "TMPDIR": OWN_FOLDER,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
"""Variables of every job: the user here is root, whom Open MPI refuses unless it is told twice."""


class SchedulerHosts(ABC):
    """`with SlurmCluster(folder) as cluster: cluster.run(["sinfo"])`.

    folder: an empty folder, where the hosts have the scheduler's files. nodes: compute nodes, beside the head.
    slots: cores that the scheduler has to give on each.
    """

    programs: ClassVar[Mapping[str, str]]
    """Files that are needed below /usr, as globs, and the Debian package that has each."""

    def __init__(self, folder: Path, *, nodes: int = 4, slots: int = 4) -> None:
        self.folder = folder.resolve()
        self.slots = slots
        self.hosts = EmulatedHosts(nodes + 1, None, shared=self.folder)
        self.head_name, *self.node_names = self.hosts.names

    @classmethod
    def missing(cls) -> str:
        """What this machine lacks, and what would be right; empty when nothing does."""
        absent = [name for name in cls.programs if not list(Path("/usr").glob(name))]
        if absent:
            needed = " ".join(dict.fromkeys(cls.programs[name] for name in absent))
            return f"no /usr/{', /usr/'.join(absent)}; install with: apt-get install --no-install-recommends {needed}"
        return emulated_hosts.missing(0.0)

    @property
    @abstractmethod
    def environment(self) -> dict[str, str]:
        """Variables of a user's shell on the head."""

    @abstractmethod
    def start(self) -> None:
        """Start all daemons; returns when jobs can run."""

    @abstractmethod
    def restart_daemon(self, node: int) -> None:
        """Start the daemon of compute node number `node` again; returns when it can have jobs."""

    def kill_daemon(self, node: int) -> None:
        """End the daemon and all jobs' processes of compute node number `node` by KILL, as its crash would."""
        self.hosts.kill(1 + node)

    def __enter__(self) -> Self:
        self.hosts.__enter__()
        try:
            self.start()
        except BaseException:
            self.hosts.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hosts.close()

    def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
        check: bool = True,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command in a user's shell on the head. env: variables beside those that the shell has.

        Raises CalledProcessError, with what the command printed, where it fails and `check` is set.
        """
        done = subprocess.run(
            self.hosts.outlived_command(HEAD, command, cwd or Path.cwd()),
            env=self._shell() | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            error = subprocess.CalledProcessError(done.returncode, list(command), done.stdout, done.stderr)
            error.add_note(f"{done.stdout}{done.stderr}")
            raise error
        return done

    def put(self, name: str, text: str, mode: int = 0o644) -> Path:
        """Write a file into the hosts' folder; its path there."""
        path = self.folder / name
        outside = self.hosts.path(HEAD, path)
        outside.parent.mkdir(parents=True, exist_ok=True)
        outside.write_text(text)
        outside.chmod(mode)
        return path

    def link(self, name: str, target: Path) -> None:
        """Make a link in the hosts' folder."""
        outside = self.hosts.path(HEAD, self.folder / name)
        outside.parent.mkdir(parents=True, exist_ok=True)
        outside.symlink_to(target)

    def start_daemons(
        self,
        hosts: Sequence[int],
        command: Sequence[str],
        *,
        background: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Run a command on each of some hosts that leaves a daemon there, or is one and goes to the background.

        env: variables beside those of a user's shell. Raises RuntimeError with what was printed where a command fails.
        """
        name = Path(command[0]).name
        if background:
            command = ["sh", "-c", '"$@" &', "sh", *command]
        running = []
        for host in hosts:
            path = self.put(f"log/{name}-{self.hosts.names[host]}.output", "")
            with self.hosts.path(HEAD, path).open("wb") as output:  # and no pipe, which the daemon would hold open
                process = subprocess.Popen(
                    self.hosts.outlived_command(host, command, self.folder),
                    env=self._shell() | dict(env or {}),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            running.append(process)
        codes = [process.wait(START_S) for process in running]
        if any(codes):
            raise RuntimeError(f"{name} ended with {codes}\n{self.logs()}")

    def wait_until(self, what: str, question: Callable[[], bool]) -> None:
        """Ask until the answer is yes. Raises RuntimeError with the daemons' logs where it takes too long."""
        ends = time.monotonic() + START_S
        while not question():
            if time.monotonic() > ends:
                raise RuntimeError(f"not within {START_S} s: {what}\n{self.logs()}")
            time.sleep(0.05)

    def logs(self) -> str:
        """The end of each daemon's log."""
        files = [file for file in sorted(self.hosts.path(HEAD, self.folder / "log").iterdir()) if file.exists()]
        ends = [(file.name, file.read_text(errors="replace").splitlines()[-LOG_LINES:]) for file in files]
        return "\n".join(f"{name}: {line}" for name, lines in ends for line in lines)

    def _shell(self) -> dict[str, str]:
        return local.environment() | {"PATH": search_path()} | self.environment


def search_path() -> str:
    """PATH with the folders of daemons, which not every shell has."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
