"""Checks of what starts the ranks: environment modules, mpirun or srun, and its agent. Torch-free."""

import re
import sys
from pathlib import Path

from jobs.doctor.finding import Finding, Subject, ask, first_line
from jobs.launch import mpirun
from pipeline.errors import UserError

MODULES, LAUNCHER, AGENT = "environment modules", "launcher", "launch agent"

OPEN_MPI = re.compile(r"\(Open MPI\) (\S+)")
PMIX = re.compile(r"PMIX: (\S+)|MCA pmix: (?:ext|pmix)(\d)x")
"""In what pmix_info says, and ompi_info of Open MPI 4."""


def modules(subject: Subject) -> Finding:
    """Whether the site's modules load here as they would in the job."""
    wanted = subject.config.site.modules
    if not wanted:
        return Finding(MODULES, "skip", "the site loads none")
    try:
        ask(["true"], modules=wanted)
    except UserError as error:
        mend = "set site.modules to what `module avail` lists; where only the nodes have them, ask there"
        return Finding(MODULES, "FAIL", str(error), ", ".join(wanted), mend)
    return Finding(MODULES, "ok", ", ".join(wanted))


def launcher(subject: Subject) -> Finding:
    """Whether the launcher is there, and which version it has."""
    site = subject.config.site
    if site.launcher == "srun":
        return _srun(subject)
    program = program_of(subject)
    try:
        answer = ask([program, "--version"], modules=site.modules)
    except UserError as error:
        mend = (
            "`make setup` puts one beside Python"
            if subject.job is None
            else "load its module (site.modules), or name it by site.launcher_path"
        )
        return Finding(LAUNCHER, "FAIL", str(error), f"Open MPI's {program}", mend)
    version = OPEN_MPI.search(answer)
    if version is None:
        mend = "name Open MPI's by site.modules or site.launcher_path: the job uses its options"
        return Finding(LAUNCHER, "FAIL", f"{program}, {first_line(answer)}", "Open MPI's mpirun", mend)
    return Finding(LAUNCHER, "ok", f"{program}, Open MPI {version[1]}")


def agent(subject: Subject) -> Finding:
    """Whether the command is there by which mpirun starts its daemons on other nodes."""
    site = subject.config.site
    if site.launch_agent is None:
        return Finding(AGENT, "skip", "the launcher needs none")
    program = site.launch_agent.split()[0]
    try:
        where = ask(["bash", "-c", 'command -v "$1"', "bash", program], modules=site.modules)
    except UserError:
        mend = (
            "it must be on the nodes' PATH, which this machine cannot see; site.launch_agent names another, or its path"
        )
        return Finding(AGENT, "warn", f"no {program} here", program, mend)
    return Finding(AGENT, "ok", first_line(where))


def program_of(subject: Subject) -> str:
    """The launcher's program, as the script calls it."""
    if subject.job is None:
        return str(Path(sys.executable).with_name("mpirun"))
    return mpirun(subject.job)


def versions(subject: Subject) -> dict[str, str]:
    """Open MPI and PMIx of mpirun's side; what cannot be found out is absent."""
    found = {}
    program = program_of(subject)
    folder = f"{Path(program).parent}/" if "/" in program else ""
    questions = {"Open MPI": ([program, "--version"], OPEN_MPI)}
    questions["PMIx"] = (["sh", "-c", f'"{folder}pmix_info" || "{folder}ompi_info"'], PMIX)
    for name, (command, pattern) in questions.items():
        try:
            answer = pattern.search(ask(command, modules=subject.config.site.modules))
        except UserError:
            continue
        if answer is not None:
            found[name] = answer[1] or f"{answer[2]}.x"
    return found


def _srun(subject: Subject) -> Finding:
    program = subject.config.site.launcher_path or "srun"
    try:
        answer = ask([program, "--mpi=list"], modules=subject.config.site.modules)
    except UserError as error:
        return Finding(LAUNCHER, "FAIL", str(error), f"{program} with PMIx", "log in to the cluster, or take mpirun")
    kinds = sorted(set(re.findall(r"\bpmix\w*", answer)))
    if kinds:
        return Finding(LAUNCHER, "ok", f"{program} with {', '.join(kinds)}")
    mend = "this SLURM was built without it: ranks would become worlds of one; take site.launcher=mpirun"
    return Finding(LAUNCHER, "FAIL", f"{program} with {' '.join(answer.split())}", "pmix among them", mend)
