"""That the tests' schedulers are as real ones: nodes of their own, jobs that run, start again and launch MPI."""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from tests.cluster.conftest import need
from tests.cluster.gridengine_cluster import GridEngineCluster
from tests.cluster.slurm_cluster import SlurmCluster

pytestmark = (
    pytest.mark.long
)  # whole runs (test_slurm_jobs.py, test_gridengine_jobs.py) need all of it at every `make test`

LIMIT_S = 120

WORLD = """
from mpi4py import MPI
import socket
names = MPI.COMM_WORLD.gather(socket.gethostname())
if names:
    print(*names, flush=True)
"""

WHO = 'echo "$(hostname) $(getent hosts node1 node2 | xargs)"'
KNOWN = "10.77.0.2 node1 10.77.0.3 node2"

MPIRUN = f"{Path(sys.executable).with_name('mpirun')} -n 4 --bind-to none"


def until(question: Callable[[], bool]) -> None:
    """Ask until the answer is yes."""
    ends = time.monotonic() + LIMIT_S
    while not question():
        assert time.monotonic() < ends, f"not within {LIMIT_S} s"
        time.sleep(0.1)


def submitted(slurm: SlurmCluster, script: str, *options: str) -> str:
    """The number of a SLURM job that runs a script."""
    options = ("--parsable", "--output=output", "--error=output", *options)
    Path("script").write_text(f"#!/bin/bash\n{script}\n")
    return slurm.run(["sbatch", *options, "script"]).stdout.strip()


def state(slurm: SlurmCluster, job: str) -> str:
    return slurm.run(["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T"]).stdout.strip()


def printed(slurm: SlurmCluster, script: str, *options: str) -> str:
    """What a SLURM job prints."""
    job = submitted(slurm, script, *options)
    until(lambda: state(slurm, job) not in ("PENDING", "RUNNING", "COMPLETING"))
    output = Path("output").read_text()
    assert state(slurm, job) == "COMPLETED", output
    return output


def ran(gridengine: GridEngineCluster, script: str, *options: str) -> str:
    """What a Grid Engine job prints."""
    Path("script").write_text(f"#!/bin/bash\n{script}\n")
    command = ["qsub", "-sync", "y", "-cwd", "-j", "y", "-o", "output", *options, "script"]
    done = gridengine.run(command, timeout=LIMIT_S, check=False)
    output = Path("output").read_text() if Path("output").exists() else ""
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{output}"
    return output


def executable(name: str, script: str) -> None:
    Path(name).write_text(f"#!/bin/sh\n{script}\n")
    Path(name).chmod(0o755)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("world.py").write_text(WORLD)


class Absent(SlurmCluster):
    programs: ClassVar[Mapping[str, str]] = {"bin/no-such-program": "its-package", "bin/env": "coreutils"}


def test_a_scheduler_that_is_not_installed_is_skipped_by_its_packages_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUIRE_CLUSTER", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no /usr/bin/no-such-program; install with: .* its-package$"):
        need(Absent)


def test_a_scheduler_that_must_be_there_fails_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUIRE_CLUSTER", "1")
    with pytest.raises(pytest.fail.Exception, match="its-package"):
        need(Absent)


def test_slurm_runs_a_job_on_two_hosts_that_know_each_other(slurm_without_accounting: SlurmCluster) -> None:
    Path("who").write_text(WHO)
    said = printed(slurm_without_accounting, "srun bash who", "--nodes=2", "--ntasks-per-node=1")
    assert sorted(said.splitlines()) == [f"node1 {KNOWN}", f"node2 {KNOWN}"]


@pytest.mark.parametrize("launcher", [MPIRUN, "srun --mpi=pmix"])
def test_mpi_has_one_world_over_two_nodes_in_slurm(slurm_without_accounting: SlurmCluster, launcher: str) -> None:
    command = f"{launcher} {sys.executable} world.py"
    said = printed(slurm_without_accounting, command, "--nodes=2", "--ntasks-per-node=2")
    assert said == "node1 node1 node2 node2\n"


def test_slurm_gives_a_job_its_gpus(slurm_without_accounting: SlurmCluster) -> None:
    said = printed(slurm_without_accounting, "echo $CUDA_VISIBLE_DEVICES", "--gpus-per-node=4")
    assert said == "0,1,2,3\n"


def test_sacct_knows_a_job_where_there_is_accounting(slurm: SlurmCluster) -> None:
    job = submitted(slurm, "exit 3")
    sacct = ["sacct", "--noheader", "--allocations", "--parsable2", f"--jobs={job}", "--format=State,ExitCode"]
    until(lambda: slurm.run(sacct).stdout == "FAILED|3:0\n")


def test_sacct_knows_nothing_where_there_is_no_accounting(slurm_without_accounting: SlurmCluster) -> None:
    done = slurm_without_accounting.run(["sacct"], check=False)
    assert done.returncode == 1
    assert "accounting storage is disabled" in done.stderr


def test_a_preempted_job_of_slurm_is_requeued_and_runs_again(slurm_without_accounting: SlurmCluster) -> None:
    slurm = slurm_without_accounting
    script = "echo ${SLURM_RESTART_COUNT:-0} >> runs; [ $(wc -l < runs) = 2 ] || sleep 1000"
    low = submitted(slurm, script, "--nodes=4", "--exclusive", "--output=low", "--error=low")
    until(lambda: Path("runs").exists())
    printed(slurm, "true", "--partition=high", "--nodes=1", "--exclusive")
    until(lambda: state(slurm, low) == "COMPLETED")
    assert Path("runs").read_text() == "0\n1\n"


def test_a_job_of_slurm_is_requeued_where_a_node_is_lost(slurm_without_accounting: SlurmCluster) -> None:
    slurm = slurm_without_accounting
    script = "hostname >> runs; [ $(wc -l < runs) = 2 ] || sleep 1000"
    job = submitted(slurm, script, "--nodes=1", "--exclusive")
    until(lambda: Path("runs").exists())
    node = slurm.node_names.index(Path("runs").read_text().strip())
    slurm.kill_daemon(node)
    try:
        until(lambda: state(slurm, job) == "COMPLETED")
    finally:
        slurm.restart_daemon(node)
    first, second = Path("runs").read_text().split()
    assert first != second


def test_grid_engine_gives_whole_nodes_as_abci_does(gridengine: GridEngineCluster) -> None:
    said = ran(gridengine, "cut -d ' ' -f 1,2 $PE_HOSTFILE; cat $SGE_JOB_HOSTLIST", "-g", "group", "-l", "rt_F=2")
    first, second, *listed = said.splitlines()
    assert listed == [first.split()[0], second.split()[0]]
    assert first.split()[1] == second.split()[1] == "4"
    assert len(set(listed)) == 2
    assert set(listed) <= set(gridengine.node_names)


def test_grid_engine_runs_a_script_on_the_jobs_other_host(gridengine: GridEngineCluster) -> None:
    executable("who", f'{WHO}\n[ -d "$SGE_LOCALDIR" ] && exit 5')
    script = "hostname; qrsh -inherit $(sed -n 2p $SGE_JOB_HOSTLIST) $PWD/who; echo $?"
    here, there, code = ran(gridengine, script, "-l", "rt_F=2").splitlines()
    assert there.partition(" ")[2] == KNOWN
    assert {here, there.partition(" ")[0]} <= set(gridengine.node_names)
    assert here != there.partition(" ")[0]
    assert code == "5"


def test_a_job_of_grid_engine_that_ends_with_99_runs_again(gridengine: GridEngineCluster) -> None:
    assert ran(gridengine, "echo $RESTARTED; exit $((RESTARTED ? 0 : 99))", "-l", "rt_F=1") == "0\n1\n"


AGENT = """
host=$1 && shift
script=$(mktemp "$PWD/agent.XXXXXX")  # on another host a command line would lose its quotes, and a file does not
printf '%s\\n' '#!/bin/sh' "$*" > "$script" && chmod 755 "$script"
exec qrsh -inherit -nostdin "$host" "$script"
"""


def test_mpi_has_one_world_over_two_nodes_in_grid_engine(gridengine: GridEngineCluster) -> None:
    executable("agent", AGENT)
    script = f"""
awk '{{print $1 " slots=" $2}}' $PE_HOSTFILE > hostfile
{MPIRUN} --hostfile hostfile --map-by ppr:2:node --prtemca plm_ssh_agent $PWD/agent {sys.executable} world.py
cat $SGE_JOB_HOSTLIST
"""
    world, *listed = ran(gridengine, script, "-l", "rt_F=2").splitlines()
    assert world.split() == [listed[0], listed[0], listed[1], listed[1]]


@pytest.mark.long
def test_a_job_of_grid_engine_runs_again_where_a_node_is_lost(gridengine: GridEngineCluster) -> None:
    script = "hostname >> runs; [ $(wc -l < runs) = 2 ] || sleep 1000"
    Path("script").write_text(f"#!/bin/bash\n{script}\n")
    job = gridengine.run(["qsub", "-terse", "-cwd", "-j", "y", "-o", "output", "-l", "rt_F=1", "script"]).stdout.strip()
    until(lambda: Path("runs").exists())
    node = gridengine.node_names.index(Path("runs").read_text().strip())
    gridengine.kill_daemon(node)
    try:
        until(lambda: gridengine.run(["qstat", "-j", job], check=False).returncode != 0)
    finally:
        gridengine.restart_daemon(node)
    first, second = Path("runs").read_text().split()
    assert first != second
