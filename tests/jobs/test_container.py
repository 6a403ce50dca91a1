"""A rank inside an image: what the program in its place passes on, run by a real bash with a stand-in for the image."""

import os
import subprocess
from pathlib import Path

import pytest

from jobs import launch
from jobs.job import Job
from tests.jobs.test_golden import made

STAND_IN = '#!/bin/bash\nprintf \'%s\\0\' "$@" > "$NOTES/words"\nenv -0 > "$NOTES/environment"\n'

FROM_THE_LAUNCHER = {
    "OMPI_COMM_WORLD_RANK": "3", "PMIX_RANK": "3", "PRTE_LAUNCHED": "1", "SLURM_PROCID": "0", "PMI_SIZE": "8",
    "TORUS224_WORLD_SIZE": "8", "NCCL_DEBUG": "INFO", "PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "2",
}  # fmt: skip
FROM_MODULES = {"OPAL_PREFIX": "/opt/openmpi", "PMIX_PREFIX": "/opt/pmix", "PYTHONHOME": "/opt/python"}


def run(job: Job, kind: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """What a rank's program calls, and with which environment, on a node whose disk is `folder`/disk."""
    (folder / "disk").mkdir()
    (folder / kind).write_text(STAND_IN)
    (folder / kind).chmod(0o755)
    program = folder / "rank"
    program.write_text(launch.files(job, launch.environment(job))["rank"])
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}", "NOTES": str(folder), "SGE_LOCALDIR": str(folder / "disk"),
        "EDITOR": "vi", "http_proxy": "http://u:p@h", **FROM_THE_LAUNCHER, **FROM_MODULES,
    }  # fmt: skip
    subprocess.run(["bash", str(program)], env=environment, check=True)
    pairs = [pair.partition("=") for pair in (folder / "environment").read_text().split("\0")]
    return (folder / "words").read_text().split("\0")[:-1], {name: value for name, _, value in pairs if name}


@pytest.mark.parametrize("kind", ["apptainer", "singularity"])
def test_what_the_launcher_tells_a_rank_is_passed_on_under_both_prefixes(kind: str, tmp_path: Path) -> None:
    _, environment = run(made("abci", f"container={kind}", "container.clean_env=true"), kind, tmp_path)
    for name, value in FROM_THE_LAUNCHER.items():
        assert environment[f"APPTAINERENV_{name}"] == value
        assert environment[f"SINGULARITYENV_{name}"] == value


def test_the_hosts_modules_and_nothing_of_the_users_own_is_passed_on(tmp_path: Path) -> None:
    _, environment = run(made("abci"), "singularity", tmp_path)
    passed = {
        name.partition("ENV_")[2] for name in environment if name.startswith(("APPTAINERENV_", "SINGULARITYENV_"))
    }
    assert not passed & {"EDITOR", "http_proxy", "OPAL_PREFIX", "PMIX_PREFIX", "PYTHONHOME", "HOME", "PATH"}
    assert not environment.keys() & FROM_MODULES.keys()


def test_the_images_own_prefixes_are_given_where_the_site_says_so(tmp_path: Path) -> None:
    prefixes = ["container.opal_prefix=/usr/lib/openmpi", "container.pmix_prefix=/usr/lib/pmix"]
    _, environment = run(made("abci", *prefixes), "singularity", tmp_path)
    assert environment["APPTAINERENV_OPAL_PREFIX"] == environment["SINGULARITYENV_OPAL_PREFIX"] == "/usr/lib/openmpi"
    assert environment["APPTAINERENV_PMIX_PREFIX"] == "/usr/lib/pmix"


def test_a_rank_sees_repository_run_folder_data_memory_and_the_nodes_disk(tmp_path: Path) -> None:
    job = made("abci", "container.binds=[/opt/site:/opt/site]")
    words, _ = run(job, "singularity", tmp_path)
    binds = [words[place + 1] for place, word in enumerate(words) if word == "--bind"]
    expected = {str(job.repository), str(job.folder.path), "/data/imagenet", "/dev/shm", "/tmp", "/opt/site:/opt/site"}
    assert set(binds) == expected | {str(tmp_path / "disk")}


def test_gpus_are_asked_for_where_there_are_some_and_home_is_not_mounted(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    words, _ = run(made("abci"), "singularity", tmp_path)
    without, _ = run(made("abci", "site.device=cpu", "site.backend=gloo"), "singularity", tmp_path / "cpu")
    assert ("--nv" in words, "--nv" in without) == (True, False)
    assert "--no-home" in words
    assert "--contain" not in words


def test_docker_gets_the_nodes_own_network_and_memory_and_variables_by_name(tmp_path: Path) -> None:
    job = made("abci", "container=docker", "container.image=torus224")
    words, _ = run(job, "docker", tmp_path)
    assert {"--network=host", "--ipc=host", "--gpus=all", f"{os.getuid()}:{os.getgid()}"} <= set(words)
    named = {words[place + 1] for place, word in enumerate(words) if word == "--env"}
    assert set(FROM_THE_LAUNCHER) <= named
    assert not named & {"PMIX_PREFIX", "OPAL_PREFIX", "EDITOR", "http_proxy"}
    assert words[-5:] == ["torus224", "python3", "-m", "pipeline.train", str(job.folder.path)]
