"""The job scripts of all sites, whole: golden files that a person has read.

After a wanted change: `python -m tests.jobs.test_golden` writes them anew; read the difference before it is committed.
"""

import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from jobs import local
from jobs.compose import compose
from jobs.executor import script
from jobs.job import Job, make_job
from jobs.scheduler import find
from jobs.script import quote
from pipeline.config import make_plan
from pipeline.run_folder import RunFolder

GOLDEN = Path(__file__).parent / "golden"
REPOSITORY = Path("/home/user/torus224")
PYTHON = REPOSITORY / ".venv/bin/python"

SITES = {
    "local": [],
    "slurm": ["nodes=16", "data.path=/data/imagenet", "site.account=gpu-project"],
    "pbs": ["nodes=16", "data.path=/data/imagenet", "site.queue=gpu"],
    "gridengine": ["nodes=32", "data.path=/data/imagenet"],
    "abci": ["nodes=272", "data.path=/data/imagenet", "site.account=gaa50000", "container.image=/images/torus224.sif"],
    "abci3": ["nodes=16", "data.path=/data/imagenet", "site.account=gaa50000", "container.image=/images/torus224.sif"],
}
"""Exp. 5 at each site, as its user would ask for it."""

SHELLCHECK = Path(sys.executable).with_name("shellcheck")


def made(site: str, *words: str) -> Job:
    """The job of Exp. 5 at a site."""
    own = [] if site.startswith("abci") else [f"site.python={PYTHON}", f"site.launcher_path={PYTHON.parent}/mpirun"]
    config = compose(["exp=exp5", f"site={site}", *SITES[site], *own, *words])
    return make_job(config, RunFolder(REPOSITORY / "runs/example"), REPOSITORY)


def rendered(site: str) -> str:
    """The job script of Exp. 5 at a site; of a cluster's with the command that submits it, as its last line."""
    if site == "local":
        config = compose(["exp=exp5", "site=local"])
        with patch.object(sys, "executable", str(PYTHON)):  # its length says where lines are broken
            return local.script(config, make_plan(config), RunFolder(REPOSITORY / "runs/example"), REPOSITORY)
    job = made(site)
    scheduler = find(job.config.site.scheduler)
    return script(job, scheduler) + f"# submitted by: {quote(scheduler.submit_command(job, job.folder.script))}\n"


@pytest.mark.parametrize("site", SITES)
def test_the_script_of_a_site_is_the_one_that_was_read(site: str) -> None:
    assert rendered(site) == (GOLDEN / f"{site}.sh").read_text()


@pytest.mark.parametrize("site", SITES)
def test_bash_and_shellcheck_find_nothing(site: str, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text(rendered(site))
    subprocess.run(["bash", "-n", str(path)], check=True)
    checked = subprocess.run([str(SHELLCHECK), str(path)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_abci3_asks_by_its_four_options_and_names_no_gpus() -> None:
    lines = rendered("abci3").splitlines()
    for line in (
        "#PBS -P gaa50000", "#PBS -q rt_HF", "#PBS -l select=16:mpiprocs=8", "#PBS -l walltime=0:20:00",
    ):  # fmt: skip
        assert line in lines
    assert "ngpus" not in "".join(lines)
    assert "ncpus" not in "".join(lines)


def test_abci_asks_for_whole_nodes_and_its_group_stands_on_the_command_line_only() -> None:
    lines = rendered("abci").splitlines()
    assert "#$ -l rt_F=272" in lines
    assert "#$ -l h_rt=0:20:00" in lines
    assert not [line for line in lines if line.startswith("#$") and "gaa50000" in line]
    assert lines[-1] == "# submitted by: qsub -terse -g gaa50000 /home/user/torus224/runs/example/job.sh"


if __name__ == "__main__":
    for name in SITES:
        (GOLDEN / f"{name}.sh").write_text(rendered(name))
