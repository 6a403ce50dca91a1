"""Jobs of the stand-ins for PBS's commands: their files, and how one really runs on this machine."""

import contextlib
import fcntl
import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SERVER = "pbsn0"
ENVIRONMENT = Path(__file__).resolve().parent / "pbs_records" / "env.txt"
KILL_DELAY_S = 1.0
"""Between TERM and KILL. PBS waits 10 s, and as much longer as its next look at the job is away."""

DELETED = {"running": "deleted while running"}
"""What a job becomes that is deleted in a state; in any other it becomes "deleted"."""

Tree = dict[str, Any]

REPOSITORY = Path(__file__).resolve().parent.parent.parent
RUN = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
from tests.jobs.fake_pbs_jobs import run_job
run_job(pathlib.Path(sys.argv[2]), sys.argv[3])
"""


def start(folder: Path, job: Tree) -> None:
    """Run a job in a process that nobody waits for, as nobody waits for a job."""
    nothing = subprocess.DEVNULL
    words = [sys.executable, "-I", "-c", RUN, str(REPOSITORY), str(folder), job["id"]]
    subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)


def run_job(folder: Path, job_id: str) -> None:
    """A running job, from its start to its end."""
    job = read_job(folder, job_id)
    assert job is not None
    os.umask(0o077)
    output = folder / "jobs" / f"{number_of(job_id)}.output"
    with output.open("wb") as file, locked(folder):
        process = subprocess.Popen(
            job["command"],
            cwd=Path.home(),
            env=_environment(folder, job),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        job = change_job(folder, job_id, session=process.pid)
    if job["state"] in DELETED.values():  # deleted before it was known whom to end
        signal_job(job, signal.SIGTERM)
    over = _await_end(folder, job, process)
    signal_job(job, signal.SIGKILL)  # PBS leaves nothing of a job's session behind
    with contextlib.suppress(OSError):  # where it cannot be put, PBS too goes on without
        shutil.copyfile(output, Path(job["cwd"]) / job["options"].get("-o", f"STDIN.o{number_of(job_id)}"))
    code = process.returncode if process.returncode >= 0 else 256 - process.returncode
    with locked(folder):
        state = change_job(folder, job_id)["state"]
        if state != "deleted while running":
            state = "over walltime" if over else "failed" if code else "finished"
        change_job(folder, job_id, state=state, exit_status=None if over else code, running=False, session=None)


def _await_end(folder: Path, job: Tree, process: "subprocess.Popen[bytes]") -> bool:
    """Wait for a job's end; returns whether it was ended for its wall time."""
    parts = job["resources"].get("walltime", "inf").split(":")
    ends_at = time.monotonic() + sum(float(part) * 60**place for place, part in enumerate(reversed(parts)))
    over, kills_at = False, float("inf")
    while process.poll() is None:
        now = time.monotonic()
        if now > ends_at and not over:
            over = True
            signal_job(job, signal.SIGTERM)
        if kills_at == float("inf") and (over or change_job(folder, job["id"])["state"] in DELETED.values()):
            kills_at = now + KILL_DELAY_S
        if now > kills_at:
            signal_job(job, signal.SIGKILL)
        time.sleep(0.02)
    return over


def _environment(folder: Path, job: Tree) -> dict[str, str]:
    """A job's environment: what PBS sets, and of the submitter's only what -v and -V hand on."""
    number, options = number_of(job["id"]), job["options"]
    chunks = int(job["resources"].get("select", "1").split(":")[0])
    ranks_of_chunk = int(chunk_of(job["resources"]).get("mpiprocs", "1"))
    nodes = folder / "jobs" / f"{number}.nodes"
    nodes.write_text(f"{socket.gethostname()}\n" * chunks * ranks_of_chunk)
    temporary = folder / "jobs" / f"{number}.tmp"
    temporary.mkdir()
    home, user = str(Path.home()), getpass.getuser()
    recorded = dict(line.partition("=")[::2] for line in ENVIRONMENT.read_text().splitlines())
    named = [word.partition("=") for word in options.get("-v", "").split(",") if word]
    return {
        **(os.environ if "-V" in options else {}),
        **recorded,
        "PBS_JOBID": job["id"],
        "PBS_JOBNAME": options.get("-N", "STDIN"),
        "PBS_NODEFILE": str(nodes),
        "PBS_JOBDIR": home,
        "PBS_O_HOME": home,
        "PBS_O_PATH": os.environ["PATH"],
        "PBS_O_WORKDIR": job["cwd"],
        "PBS_QUEUE": job["queue"],
        "PBS_O_QUEUE": job["queue"],
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/bash",
        "TMPDIR": str(temporary),
        "PATH": f"{folder}/bin:/bin:/usr/bin",
        **{name: value if equals else os.environ[name] for name, equals, value in named},
    }


def signal_job(job: Tree, number: int) -> None:
    """Send a signal to every process of a job's session, whatever process groups are in it, as PBS does."""
    for entry in Path("/proc").glob("[0-9]*") if job["session"] else []:
        with contextlib.suppress(OSError):
            if (entry / "stat").read_text().rpartition(")")[2].split()[3] == str(job["session"]):
                os.kill(int(entry.name), number)


def state_holder(job: Tree, name: str) -> Tree:
    """What holds the state that a name asks for: a job, or a member of it."""
    member: Tree = job["members"][index_of(name)] if index_of(name) else job
    return member


def chunk_of(resources: dict[str, str]) -> dict[str, str]:
    """The resources of a chunk: {"ncpus": "4"} of select=2:ncpus=4."""
    return {item.partition("=")[0]: item.partition("=")[2] for item in resources.get("select", "").split(":")[1:]}


def members_of(span: str | None) -> list[str]:
    """The members of an array: -J 0-6:2 has 0, 2, 4 and 6."""
    if span is None:
        return []
    first, last, step = re.findall(r"\d+", f"{span}:1")[:3]
    return [str(index) for index in range(int(first), int(last) + 1, int(step))]


def number_of(name: str) -> str:
    """The number of a job: 6 of 6.pbsn0, 6[].pbsn0 and 6[2]."""
    return re.split(r"[.\[]", name)[0]


def index_of(name: str) -> str:
    """The index of an array's member: 2 of 6[2]; empty where the name is that of a job or of an array."""
    inner = re.search(r"\[(\d+)\]", name)
    return inner[1] if inner else ""


def full_id(name: str) -> str:
    return name if "." in name else f"{name}.{SERVER}"


def change_job(folder: Path, job_id: str, **values: object) -> Tree:
    job = read_job(folder, job_id)
    assert job is not None
    if values:
        write_job(folder, job | values)
    return job | values


def read_job(folder: Path, name: str) -> Tree | None:
    """The job of a name; None where there is none. An array is not known by its number alone."""
    path = folder / "jobs" / f"{number_of(name)}.json"
    job = read(path) if path.exists() else None
    known = job and bool(job["members"]) == ("[" in name) and (not index_of(name) or index_of(name) in job["members"])
    return job if known else None


def write_job(folder: Path, job: Tree) -> None:
    write(folder / "jobs" / f"{number_of(job['id'])}.json", job)


def read(path: Path) -> Tree:
    tree: Tree = json.loads(path.read_text())
    return tree


def write(path: Path, tree: Tree) -> None:
    """Write a file that another process finds whole."""
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(tree))
    temporary.replace(path)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
