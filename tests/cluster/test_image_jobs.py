"""A run in an image at a real SLURM: what `make image` and `make sif` left, on two nodes, by the host's launcher."""

import shutil
import sys
from pathlib import Path

import pytest

from jobs.image.build import BUILD
from pipeline.run_folder import RunFolder
from tests.cluster.runs import SCALE_MODEL, Runs, losses
from tests.cluster.slurm_cluster import SlurmCluster

SIF = BUILD / "torus224.sif"
INTERFACE = "site.interface=eth0"
"""An emulated host's /etc/hosts is a file without a name, which no container program can bind: names lead nowhere."""

WORDS = "site.workers_per_node=2 run.stop_after_updates=20 site.wall_time=0:30:00"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not SIF.exists(), reason=f"no {SIF}; make image, make sif"),
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on PATH"),
]


@pytest.fixture(scope="module")
def runs(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(slurm, "slurm", tmp_path_factory.mktemp("runs"), WORDS, nodes=2)


def submit(runs: Runs, name: str, container: str) -> RunFolder:
    """Submit a run whose ranks are in a container, or in none."""
    model = SCALE_MODEL.replace("container=none", container).replace("site.interface=null", INTERFACE)
    folder = RunFolder(runs.folder / name)
    runs.make("submit", "EXP=5", "SITE=slurm", "NODES=2", f"ARGS={model} {WORDS} run.dir={folder.path}")
    return folder


@pytest.mark.parametrize("clean_env", ["false", "true"])
def test_two_nodes_train_in_the_image_to_the_losses_of_a_run_outside_it(runs: Runs, clean_env: str) -> None:
    inside = submit(
        runs,
        f"inside-{clean_env}",
        f"container=apptainer container.image={SIF} container.clean_env={clean_env} site.launcher_path={mpirun()}",
    )
    outside = submit(runs, f"outside-{clean_env}", "container=none")
    assert (runs.finished(inside)["workers"], runs.finished(outside)["workers"]) == (4, 4)
    assert "nodes: 2 (" in inside.rank_log(0).read_text()
    assert losses(inside) == losses(outside)


def mpirun() -> Path:
    """The host's: the one beside this Python, as outside an image."""
    return Path(sys.executable).with_name("mpirun")
