"""Checks of what the ranks run: the image, the Python in it, and whether its MPI meets the launcher's. Torch-free."""

import copy
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jobs.container import rank_program
from jobs.doctor.finding import Finding, Subject, ask, first_line
from jobs.doctor.launcher import versions
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder

CONTAINER, IMAGE, INSIDE, TOGETHER = "container program", "image", "ranks' Python", "launcher's MPI and the program's"

INSIDE_S = 180
"""Packages of a cold image on a cluster's file system take their time."""

PROBE = """
import json, re, sys
found = {"Python": sys.version.split()[0]}
try:
    import torch
    found["torch"] = torch.__version__
    import mpi4py
    found["mpi4py"] = mpi4py.__version__
    mpi4py.rc.initialize = False
    from mpi4py import MPI
    library = " ".join(MPI.Get_library_version().split())
    version = re.match(r"Open MPI v([^\\s,]+)", library)
    found["Open MPI" if version else "MPI"] = version[1] if version else library[:60]
    import ctypes
    paths = [line.split()[-1] for line in open("/proc/self/maps") if "/libpmix.so" in line]
    if paths:
        ask = ctypes.CDLL(paths[0]).PMIx_Get_version
        ask.restype = ctypes.c_char_p
        found["PMIx"] = re.search(r"[0-9][^\\s,]*", ask().decode())[0]
except Exception as error:
    found["error"] = f"{type(error).__name__}: {error}"
print("torus224", json.dumps(found))
"""
"""Runs in the ranks' place, without starting MPI."""


def container(subject: Subject) -> Finding:
    """Whether the program is there that runs images."""
    name = subject.config.container.name
    if name == "none":
        return Finding(CONTAINER, "skip", "container=none")
    try:
        answer = ask([name, "--version"], modules=subject.config.site.modules)
    except UserError as error:
        mend = f"load its module by site.modules, or take another: container={_others(name)}"
        return Finding(CONTAINER, "FAIL", str(error), name, mend)
    return Finding(CONTAINER, "ok", first_line(answer))


def image(subject: Subject) -> Finding:
    """Whether the image is there and can be read."""
    kind, name = subject.config.container.name, str(subject.config.container.image)
    if kind == "none":
        return Finding(IMAGE, "skip", "container=none")
    if "container.image" in subject.stand_ins:
        return Finding(IMAGE, "skip", "it has no value")
    if kind == "docker":
        return _docker_image(name)
    if "://" in name:
        mend = f"every rank would pull it: `{kind} pull` it once, and give the file by IMAGE="
        return Finding(IMAGE, "warn", name, "a file that all nodes see", mend)
    if not Path(name).exists():
        return Finding(IMAGE, "FAIL", f"no {name}", "an image", "build or copy it there, or name another by IMAGE=")
    if not os.access(name, os.R_OK):
        return Finding(
            IMAGE, "FAIL", f"{name}, which you may not read", "an image", "chmod it, or copy it to a folder of yours"
        )
    return Finding(IMAGE, "ok", name)


def inside(subject: Subject, before: Sequence[Finding] = ()) -> tuple[Finding, Mapping[str, str]]:
    """Start the ranks' Python once, in the image where there is one; with the versions it told.

    before: what was found of the container program and the image; where one fails, that was told.
    """
    lacking = [finding.what for finding in before if finding.level == "FAIL"]
    if lacking:
        return Finding(INSIDE, "skip", f"it needs the {' and the '.join(lacking)}"), {}
    if "container.image" in subject.stand_ins:
        return Finding(INSIDE, "skip", "container.image has no value"), {}
    needed = "torch and mpi4py that can be imported"
    try:
        found = probe(subject)
    except UserError as error:
        return Finding(INSIDE, "FAIL", str(error), needed, _mend(subject)), {}
    wrong = found.pop("error", "")
    told = ", ".join(f"{name} {version}" for name, version in found.items())
    if wrong:
        return Finding(INSIDE, "FAIL", f"{told}, and {wrong}", needed, _mend(subject)), found
    return Finding(INSIDE, "ok", told), found


def together(subject: Subject, program: Mapping[str, str]) -> Finding:
    """Whether the launcher's MPI and the program's meet. program: versions that the ranks' Python told."""
    if not program:
        return Finding(TOGETHER, "skip", "the ranks' Python told no versions")
    if subject.config.site.launcher == "srun":
        return Finding(TOGETHER, "skip", "srun brings PMIx alone, which the job's own check of its world tries")
    return compare(versions(subject), program)


def compare(launcher: Mapping[str, str], program: Mapping[str, str]) -> Finding:
    """Judge two sides' versions. Where they do not meet, each rank takes itself for a world of one, or hangs."""
    rows = [f"{'':10}{'launcher':14}program"]
    rows += [f"{name:10}{launcher.get(name, '?'):14}{program.get(name, '?')}" for name in ("Open MPI", "PMIx")]
    needed = "an Open MPI in the program that is as new as the launcher's, or newer"
    if "Open MPI" not in program:
        other = program.get("MPI", "no MPI")
        mend = "build mpi4py against Open MPI; mpirun would start worlds of one"
        return Finding(TOGETHER, "FAIL", f"{other} in the program", needed, mend, rows)
    if "Open MPI" not in launcher:
        return Finding(TOGETHER, "warn", "no version of the launcher's", needed, "see the launcher's line", rows)
    sides = [one["Open MPI"] for one in (launcher, program)]
    found = f"Open MPI {sides[0]} and {sides[1]}"
    majors = [int(side.partition(".")[0]) for side in sides]
    if majors[0] > majors[1]:
        mend = "they split a job into worlds of one without a word: load an older one, or build the image with a newer"
        return Finding(TOGETHER, "FAIL", found, needed, mend, rows)
    return Finding(TOGETHER, "ok", found, table=rows)


def probe(subject: Subject) -> dict[str, str]:
    """The versions that the ranks' Python tells. Raises UserError where it does not start."""
    modules = subject.config.site.modules
    if subject.job is None or subject.config.container.name == "none":
        python = subject.config.site.python or sys.executable
        return _told(ask([python, "-c", PROBE], modules=modules, timeout_s=INSIDE_S))
    config = copy.deepcopy(subject.config)
    config.site.device = "cpu"  # a login node has no GPU to pass on
    with tempfile.TemporaryDirectory(prefix="torus224-doctor-") as folder:
        if not Path(config.data.path).is_dir():  # has its own check; here it would only not be bound
            config.data.path = folder
        job = replace(subject.job, config=config, folder=RunFolder(folder))
        path = Path(folder) / "rank"
        path.write_text(rank_program(job, [config.site.python or "python3", "-c", PROBE], ["PYTHONNOUSERSITE"]))
        return _told(ask(["bash", str(path)], modules=modules, timeout_s=INSIDE_S))


def _told(printed: str) -> dict[str, str]:
    lines = [line for line in printed.splitlines() if line.startswith("torus224 ")]
    if not lines:
        raise UserError(f"Python printed no versions: {first_line(printed)}")
    found: dict[str, str] = json.loads(lines[-1].partition(" ")[2])
    return found


def _docker_image(name: str) -> Finding:
    try:
        ask(["docker", "image", "inspect", "--format", "{{.Id}}", name])
    except UserError as error:
        mend = "build or pull it on every node, or name another by IMAGE="
        return Finding(IMAGE, "FAIL", str(error), f"docker's image {name}", mend)
    return Finding(IMAGE, "ok", name)


def _mend(subject: Subject) -> str:
    if subject.config.container.name == "none":
        return "`make setup` makes .venv; site.python names another Python"
    return "build the image anew, or see container.options and container.binds"


def _others(name: str) -> str:
    return " or ".join(one for one in ("apptainer", "singularity", "docker", "none") if one != name)
