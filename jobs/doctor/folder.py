"""Checks of where a run writes: its file system, locks, free space; of this machine where it runs here. Torch-free."""

import os
import shutil
import sys
from pathlib import Path

from jobs.doctor.finding import Finding, Subject, ask, gigabytes, judge
from pipeline.errors import UserError
from pipeline.ownership import exposed

FOLDER, LOCKS, SPACE, CORES = "run folder", "locks (flock)", "free space", "cores"

ANSWER_S = 20
"""A file system that takes longer hangs."""

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only its size is asked for

TRY_LOCKS = """
import fcntl, sys, tempfile
with tempfile.NamedTemporaryFile(dir=sys.argv[1], prefix=".torus224-") as file:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(file.name) as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("two locks at once")
    except BlockingIOError:
        print("works")
    except OSError as error:
        print(error)
"""
"""In a process of its own, which a file system that hangs cannot take along."""

CHECKPOINT_BYTES = {"resnet50": 210e6, "small_resnet": 2e6}
"""About: weights and momentum in fp32; ResNet-50 has 25.6 million numbers in each."""


def folder(subject: Subject) -> tuple[Finding, Finding]:
    """Whether a run folder could be made, and whether locks work there."""
    where = existing(subject)
    try:
        said = ask([sys.executable, "-c", TRY_LOCKS, str(where)], timeout_s=ANSWER_S)
    except UserError as error:
        found = f"{where}, where {str(error).rpartition('Error: ')[2]}"
        mend = "name a folder of yours that all nodes see by run.dir="
        written = Finding(FOLDER, "FAIL", found, "a file can be made", mend)
        return written, Finding(LOCKS, "skip", "nothing can be written there")
    written = Finding(FOLDER, "ok", f"{where} can be written")
    if why := exposed(Path(subject.config.run.dir)):
        written = Finding(FOLDER, "warn", why, "folders that nobody else can change", "name one of yours by run.dir=")
    if said == "works":
        return written, Finding(LOCKS, "ok", f"they work in {where}")
    mend = "only the scheduler keeps a run from starting twice: do not submit one run folder twice"
    return written, Finding(LOCKS, "warn", f"in {where}: {said}", "two starts of one run exclude each other", mend)


def space(subject: Subject) -> Finding:
    """Whether checkpoints have room."""
    where, run = existing(subject), subject.config.run
    free = free_bytes(where)
    checkpoint = CHECKPOINT_BYTES.get(subject.config.model.name, CHECKPOINT_BYTES["resnet50"])
    needed = checkpoint * (run.keep_checkpoints + 2)  # one more while it is written, and model.pt
    found, wanted = f"{gigabytes(free)} in {where}", f"{gigabytes(needed)} for checkpoints"
    return judge(SPACE, free >= needed, found, wanted, "make room, or name another place by run.dir=")


def cores(subject: Subject) -> Finding:
    """Whether a local run has a core for every worker; it runs with fewer, only slower."""
    if subject.job is not None:
        return Finding(CORES, "skip", "the nodes are not this machine")
    found, needed = len(os.sched_getaffinity(0)), subject.plan.workers * subject.config.site.threads_per_worker
    mend = "workers take turns: the run is right, only slower"
    wanted = f"{needed} for {subject.plan.workers} workers"
    return judge(CORES, found >= needed, str(found), wanted, mend, otherwise="warn")


def existing(subject: Subject) -> Path:
    """The nearest folder above the run folder that there is."""
    path = Path(subject.config.run.dir).absolute()
    return next(one for one in (path, *path.parents) if one.is_dir())


def free_bytes(path: Path) -> int:
    """What is free there for an ordinary user; 0 where nothing is there."""
    return shutil.disk_usage(path).free if path.exists() else 0
