"""The command that starts all ranks of a batch job on its nodes, and the small programs it needs. Pure; torch-free."""

import sys
from collections.abc import Mapping
from pathlib import Path

from jobs.container import rank_program
from jobs.job import Job
from jobs.script import ENVIRONMENT_OF_A_RANK, Expansion

OF_THE_NODE = ("HOME", "PATH", "LD_LIBRARY_PATH")
"""What daemons on other nodes would not know: their agents pass no environment on."""

BY_THE_SCRIPT = ("OMP_NUM_THREADS", "PYTHONPATH", "TORUS224_STARTED")

ON_ONE_NODE = {"OMPI_MCA_btl": "^tcp"}
"""Ranks of one node talk through memory: without it each of them listens on every address of the node, for nobody."""

LAST_RANK_S = 60
"""How long srun waits for the rest when a rank has ended. It must not kill them at the first code that is not 0: one
that has saved (85) may be a moment ahead of the others."""

AGENTS = {
    "qrsh": """#!/bin/bash
# mpirun calls this as it would ssh: HOST COMMAND... Grid Engine's qrsh loses quotes, so the command goes in a file.
host=$1
shift
program=$(mktemp "${0%/*}/daemon-$host.XXXXXX") || exit 1
printf '%s\\n' "$*" > "$program"
exec qrsh -inherit -nostdin "$host" /bin/bash "$program"
""",
    "pbs_tmrsh": """#!/bin/bash
# mpirun calls this as it would ssh: HOST COMMAND... pbs_tmrsh starts a program, and no shell as mpirun expects.
# It would end by a USR2 that PBS sends to the job, and PBS would then end the daemon.
trap '' USR1 USR2
PATH=${PBS_O_PATH:+$PBS_O_PATH:}$PATH:/opt/pbs/bin
host=$1
shift
exec pbs_tmrsh "$host" /bin/sh -c "$*"
""",
}
"""What starts mpirun's daemons on other nodes where a scheduler's own command needs help, by that command's name."""


def environment(job: Job) -> dict[str, str]:
    """Variables that the script gives to the ranks, beside those of every run."""
    site = job.config.site
    found = {"PYTHONNOUSERSITE": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    found["TORUS224_WORLD_SIZE"] = str(job.allocation.workers)  # a world that is not met is told by it
    if job.allocation.nodes == 1:
        found |= ON_ONE_NODE
    if site.cards:
        found["NCCL_IB_HCA"] = ",".join(site.cards)
    if site.launcher == "srun":
        found["TORUS224_TERM_SAVES"] = "1"
    if site.launch_agent is not None:
        agent = Expansion('"$attempt/launch-agent"') if site.launch_agent in AGENTS else site.launch_agent
        found |= {"PRTE_MCA_plm_ssh_agent": agent, "OMPI_MCA_plm_rsh_agent": agent}  # Open MPI 5 and 4
    return found | site.environment


def command(job: Job, variables: Mapping[str, str], *, host_file: bool) -> list[str]:
    """The launcher with its words. variables: those to pass on by name. host_file: whether it needs the hosts."""
    site, allocation = job.config.site, job.allocation
    names = [*OF_THE_NODE, *_passed_on(job, variables)]
    if site.launcher == "srun":
        words = [
            site.launcher_path or "srun", "--mpi=pmix", f"--nodes={allocation.nodes}",
            f"--ntasks={allocation.workers}", f"--ntasks-per-node={allocation.workers_per_node}",
            "--cpu-bind=none", "--kill-on-bad-exit=0", f"--wait={LAST_RANK_S}", f"--export={','.join(names)}",
        ]  # fmt: skip
    else:
        words = [mpirun(job), "-n", str(allocation.workers)]
        if host_file:
            words += ["--hostfile", Expansion('"$attempt/hosts"')]
        words += ["--map-by", f"ppr:{allocation.workers_per_node}:node", "--bind-to", "none", "--mca", "osc", "^ucx"]
        words += [word for name in names for word in ("-x", name)]
    return [*words, *site.launcher_options, *_rank(job)]


def files(job: Job, variables: Mapping[str, str]) -> dict[str, str]:
    """Small programs that the script writes into the attempt's folder, by name."""
    found = {}
    if job.config.site.launch_agent in AGENTS:
        found["launch-agent"] = AGENTS[job.config.site.launch_agent]
    if job.config.container.name != "none":
        found["rank"] = rank_program(job, python(job), _passed_on(job, variables))
    return found


def python(job: Job) -> list[str]:
    """What a rank runs, in words."""
    inside = job.config.container.name != "none"
    program = job.config.site.python or ("python3" if inside else sys.executable)
    return [program, "-m", "pipeline.train", str(job.folder.path)]


def _passed_on(job: Job, variables: Mapping[str, str]) -> list[str]:
    """Names of variables that every rank needs; the node's own disk is bound into an image by its variable."""
    disk = job.config.site.local_storage
    return [*ENVIRONMENT_OF_A_RANK, *BY_THE_SCRIPT, *variables, *([disk] if disk else [])]


def _rank(job: Job) -> list[str]:
    return python(job) if job.config.container.name == "none" else [Expansion('"$attempt/rank"')]


def mpirun(job: Job) -> str:
    """The launcher's program: the one of the Python that submits is the ranks' own where there is no container."""
    beside = Path(sys.executable).with_name("mpirun")
    if job.config.site.launcher_path:
        return job.config.site.launcher_path
    return str(beside) if job.config.container.name == "none" and beside.exists() else "mpirun"
