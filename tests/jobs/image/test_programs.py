"""Which program builds: the first that can, and what was found where none does."""

from pathlib import Path

import pytest

from jobs.image.programs import find_builder, find_runner
from pipeline.errors import UserError


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(folder: Path, name: str, text: str = "") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


DOCKER = 'case "$1" in version) echo {version};; buildx) exit {buildx};; esac'


def test_a_client_without_its_daemon_is_passed_over_for_the_next_one(programs: Path) -> None:
    put(programs, "docker", "exit 1")
    put(programs, "buildah")
    assert find_builder().name == "buildah"


def test_docker_that_cannot_mount_while_it_builds_is_passed_over(programs: Path) -> None:
    put(programs, "docker", DOCKER.format(version="28.2.2", buildx=1))
    put(programs, "podman")
    assert find_builder().name == "podman"
    put(programs, "docker", DOCKER.format(version="28.2.2", buildx=0))
    assert find_builder().name == "docker"
    put(programs, "docker", DOCKER.format(version="20.10.24+dfsg1", buildx=1))  # Debian 12's builds by itself
    assert find_builder().name == "docker"


def test_where_nothing_builds_each_is_told_with_its_reason_and_what_to_install(programs: Path) -> None:
    put(programs, "docker", "exit 1")
    line = (
        "docker has no daemon that answers .* buildah is not on PATH; podman is not on PATH; needed: .*apt-get install"
    )
    with pytest.raises(UserError, match=line):
        find_builder()
    with pytest.raises(UserError, match="BUILDER=kaniko: no such builder; there are docker, buildah, podman"):
        find_builder("kaniko")
    with pytest.raises(UserError, match="nothing builds an image here: podman is not on PATH; needed"):
        find_builder("podman")


def test_apptainer_is_taken_before_singularity_and_neither_is_told(programs: Path) -> None:
    with pytest.raises(
        UserError, match=r"no apptainer and no singularity on PATH; needed: apptainer .*SingularityCE 4"
    ):
        find_runner()
    put(programs, "singularity")
    assert find_runner() == "singularity"
    put(programs, "apptainer")
    assert find_runner() == "apptainer"
