"""Running here: what ranks write reaches the terminal as they write it, and nothing of another job reaches them."""

import subprocess
import sys
from pathlib import Path

import pytest

from jobs import local
from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.run_folder import RunFolder

HALF_A_LINE = """
import pathlib, sys, time
sys.stdout.write("half a line")
sys.stdout.flush()
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
"""


def test_half_a_line_reaches_the_terminal_while_the_rank_still_runs(tmp_path: Path) -> None:
    command = local.launch_command(1, [sys.executable, "-c", HALF_A_LINE, str(tmp_path / "read")])
    with subprocess.Popen(command, env=local.environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(11) == b"half a line"  # would wait for ever if mpirun waited for the line's end
        (tmp_path / "read").write_text("")
        assert process.wait(30) == 0


def test_nothing_of_a_job_that_the_shell_sits_in_reaches_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = ["SLURM_NTASKS", "SBATCH_ACCOUNT", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "PRTE_MCA_x", "PBS_JOBID"]
    for name in foreign:
        monkeypatch.setenv(name, "64")
    monkeypatch.setenv("KEPT", "yes")
    environment = local.environment()
    assert not set(foreign) & set(environment)
    assert environment["KEPT"] == "yes"


def test_ranks_run_in_the_python_that_the_site_names(repository: Path, tmp_path: Path) -> None:
    named = compose(["exp=exp5", "site.python=/opt/other/bin/python3"])
    text = local.script(named, make_plan(named), RunFolder(tmp_path), repository)
    words = text.replace("\\\n", " ").split()
    assert words[words.index("pipeline.train") - 2] == "/opt/other/bin/python3"
