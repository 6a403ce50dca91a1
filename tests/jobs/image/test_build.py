"""What is asked of the programs that build and that wrap: pure commands."""

from pathlib import Path

import pytest

from jobs.image.build import SMALL, Recipe, command
from jobs.image.programs import BUILDERS
from jobs.image.registries import Registries
from jobs.image.sif import command as sif_command
from jobs.image.versions import left_in, read_lock
from pipeline.errors import UserError

RECIPE = Recipe("debian@sha256:00", "3.11", None, "0.1.0", "abc")
HERE = Registries("[global]\nproxy = http://user:word@proxy\n", (Path("/wheels"),), Path("/etc/own.pem"))
NOWHERE = Registries("", (), None)


@pytest.mark.parametrize("name", BUILDERS)
def test_base_python_version_and_commit_are_arguments_and_the_build_has_the_hosts_network(
    name: str, repository: Path, tmp_path: Path
) -> None:
    words = command(BUILDERS[name], RECIPE, "torus224:0.1.0", repository, NOWHERE, tmp_path)
    given = [words[place + 1] for place, word in enumerate(words) if word == "--build-arg"]
    assert given == ["BASE=debian@sha256:00", "PYTHON_VERSION=3.11", "VERSION=0.1.0", "COMMIT=abc"]
    assert words[words.index("--network") + 1] == "host"
    assert "--secret" not in words


@pytest.mark.parametrize("name", BUILDERS)
def test_registries_are_mounted_while_it_builds_and_no_word_of_them_is_an_argument(
    name: str, repository: Path, tmp_path: Path
) -> None:
    words = command(BUILDERS[name], RECIPE, "torus224:0.1.0", repository, HERE, tmp_path)
    assert (tmp_path / "pip.conf").read_text() == HERE.settings
    assert f"id=pip.conf,src={tmp_path}/pip.conf" in words
    assert "id=certificates,src=/etc/own.pem" in words
    assert ("/wheels:/wheels:ro" in words) == (name != "docker")  # docker mounts no folders while it builds
    assert not [word for word in words if "proxy" in word]


def test_the_archive_of_each_builder_is_one_that_apptainer_reads() -> None:
    path = Path("/b/torus224.tar")
    assert BUILDERS["docker"].saving("t:1", path) == ["docker", "save", "--output", str(path), "t:1"]
    assert BUILDERS["buildah"].saving("t:1", path)[-1] == f"docker-archive:{path}:t:1"
    assert "docker-archive" in BUILDERS["podman"].saving("t:1", path)


def test_the_small_image_has_mpi_and_what_reads_a_configuration_and_nothing_large(repository: Path) -> None:
    few = left_in(read_lock(repository / "requirements.lock"), only=SMALL, without="")
    assert {"mpi4py", "openmpi", "hydra-core"} <= few.keys()
    assert not few.keys() & {"torch", "triton", "nvidia-dali-cuda130", "nvidia-cudnn-cu13"}
    assert len(few) == SMALL.count("|") + 1  # no name in it is a slip


def test_what_the_image_does_without_is_in_the_lock(repository: Path) -> None:
    (line,) = [line for line in (repository / "Dockerfile").read_text().splitlines() if line.startswith("ARG WITHOUT=")]
    without = line.partition("=")[2].strip('"')
    lock = read_lock(repository / "requirements.lock")
    absent = lock.keys() - left_in(lock, only=".+", without=without).keys()
    assert len(absent) == len(without.replace("(-xdist)?", "|pytest-xdist").split("|"))
    assert "torch" not in absent


def test_a_sif_is_made_of_any_of_the_places_that_apptainer_and_singularity_know(tmp_path: Path) -> None:
    target, definition = tmp_path / "t.sif", Path("Singularity.def")
    (tmp_path / "t.tar").touch()

    def given(source: str) -> list[str]:
        words = sif_command("apptainer", source, target, definition)
        assert words[-2:] == [str(target), str(definition)]
        return [words[place + 1] for place, word in enumerate(words) if word == "--build-arg"]

    assert given("docker:nvcr/torch@sha256:00") == ["BOOTSTRAP=docker", "FROM=nvcr/torch@sha256:00"]
    assert given("docker-daemon:torus224:0.1.0") == ["BOOTSTRAP=docker-daemon", "FROM=torus224:0.1.0"]
    for kind in ("oci-archive", "docker-archive"):
        assert given(f"{kind}:{tmp_path}/t.tar") == [f"BOOTSTRAP={kind}", f"FROM={tmp_path}/t.tar"]
    with pytest.raises(UserError, match="no such archive; `make image`"):
        given(f"oci-archive:{tmp_path}/none.tar")
    with pytest.raises(UserError, match=r"FROM=torus224\.tar: it is BOOTSTRAP:FROM with one of docker, docker-daemon"):
        given("torus224.tar")
