"""How ranks are started: the launcher's words, and the agents that start its daemons on other nodes."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jobs import launch
from tests.jobs.test_golden import PYTHON, made


def words(*overrides: str, site: str = "slurm", host_file: bool = False) -> list[str]:
    job = made(site, *overrides)
    return launch.command(job, launch.environment(job), host_file=host_file)


def test_mpirun_starts_as_many_ranks_on_each_node_as_it_has_gpus_and_binds_none_itself() -> None:
    found = words()
    assert found[:3] == [str(PYTHON.with_name("mpirun")), "-n", "128"]
    assert found[found.index("--map-by") + 1] == "ppr:8:node"
    assert found[found.index("--bind-to") + 1] == "none"
    assert "--hostfile" not in found


def test_variables_are_passed_on_by_name_and_never_all_of_them() -> None:
    found = words("+site.environment.NCCL_DEBUG=INFO")
    named = {found[place + 1] for place, word in enumerate(found) if word == "-x"}
    assert {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "NCCL_DEBUG", "PYTHONNOUSERSITE", "TORUS224_WORLD_SIZE"} <= named
    assert not [name for name in named if "=" in name]


def test_srun_exports_the_same_names_and_waits_for_ranks_that_still_save() -> None:
    found = words("site.launcher=srun")
    (exported,) = [word for word in found if word.startswith("--export=")]
    assert "ALL" not in exported
    assert "TORUS224_TERM_SAVES" in exported
    assert {"--mpi=pmix", "--ntasks=128", "--kill-on-bad-exit=0"} <= set(found)


def test_more_words_of_the_site_stand_before_the_program() -> None:
    found = words("site.launcher_options=[--mca, pml, ucx]")
    assert found[-7:] == ["--mca", "pml", "ucx", str(PYTHON), "-m", "pipeline.train", found[-1]]


def agent(site: str, command: str, stand_in: str, folder: Path) -> Path:
    """An agent as a script writes it, and a stand-in for the scheduler's command that it calls."""
    job = made(site)
    path = folder / "launch-agent"
    path.write_text(launch.files(job, launch.environment(job))["launch-agent"])
    path.chmod(0o755)
    (folder / command).write_text(f"#!/bin/bash\n{stand_in}\n")
    (folder / command).chmod(0o755)
    return path


LINE = """ PRTE_X="a b"; export PRTE_X; printf '%s,' "$PRTE_X" 'c  d' "$(pwd)" """

QRSH = '[ "$1 $2" = "-inherit -nostdin" ] || exit 9\nhost=$3\nshift 3\necho "$host"\nexec "$@"'
PBS_TMRSH = 'host=$1\nshift\necho "$host"\nexec "$@"  # no shell: words as they are'


@pytest.mark.parametrize(
    ("site", "command", "stand_in"), [("gridengine", "qrsh", QRSH), ("pbs", "pbs_tmrsh", PBS_TMRSH)]
)
def test_an_agent_runs_a_line_of_shell_on_a_host_with_all_its_quotes(
    site: str, command: str, stand_in: str, tmp_path: Path
) -> None:
    path = agent(site, command, stand_in, tmp_path)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(path), "node2", *LINE.split(" ")], env=environment, cwd="/", capture_output=True, text=True, check=True
    )
    assert done.stdout == "node2\na b,c  d,/,"


def test_the_agent_at_pbs_outlives_the_request_to_save_that_pbs_sends_to_the_whole_job(tmp_path: Path) -> None:
    path = agent("pbs", "pbs_tmrsh", f"touch {tmp_path}/up; exec sleep 0.5", tmp_path)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen([str(path), "node2", "true"], env=environment) as process:
        while not (tmp_path / "up").exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGUSR2)
        assert process.wait(30) == 0
