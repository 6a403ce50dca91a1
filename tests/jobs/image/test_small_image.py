"""The small image for real: built by the Dockerfile on a base of debootstrap's, made a SIF, ranks started in it.

Skipped with the reason where this machine has no program for it. The program that builds keeps the base and the layers,
so the first time takes a minute more.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.compose import REPOSITORY
from jobs.image import check
from jobs.image.base import DEBOOTSTRAP, make_base
from jobs.image.build import SMALL, build
from jobs.image.check import RANKS, Image
from jobs.image.contents import faults, read
from jobs.image.programs import find_builder, find_runner, is_root
from jobs.image.registries import known_here
from jobs.image.sif import make_sif
from jobs.image.versions import left_in, read_lock, read_versions
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder

OPEN_MPI_4 = "libopenmpi3"
"""Debian's, in the base, so that the one image has another MPI too, which it takes where it is told so."""

OF_DEBIAN = "/usr/lib/x86_64-linux-gnu/libmpi.so.40"

QUICKLY = ("--mksquashfs-args", "-noI -noD -noF -noX")


def lacking() -> str:
    """Why the image cannot be built here; empty where it can."""
    if not is_root():
        return "debootstrap needs root"
    if shutil.which(DEBOOTSTRAP) is None:
        return "no debootstrap on PATH; apt-get install debootstrap"
    try:
        find_builder()
        find_runner()
    except UserError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The image as `make image` saves it."""
    if reason := lacking():
        pytest.skip(reason)
    builder = find_builder()
    suite = read_versions(REPOSITORY / "versions.env")["DEBIAN_SUITE"]
    base = make_base(builder, suite, include=[OPEN_MPI_4])
    folder = tmp_path_factory.mktemp("image")
    yield build(builder, base, small=True, folder=folder)
    shutil.rmtree(folder)  # half a gigabyte, with the SIF


@pytest.fixture(scope="module")
def image(archive: Path) -> Image:
    """The SIF of it, as `make sif` makes it; its %test has passed."""
    sif = make_sif(f"docker-archive:{archive}", archive.with_suffix(".sif"), more=QUICKLY)
    return Image(sif, find_runner(), str(Path(sys.executable).with_name("mpirun")))


def test_nothing_is_in_it_that_must_not_be(archive: Path) -> None:
    contents = read(archive)
    assert faults(contents, [str(folder) for folder in known_here().folders]) == []
    assert contents.config["Healthcheck"]["Test"] == ["CMD", "python", "/opt/torus224/health.py"]
    labels = contents.config["Labels"]
    assert labels["org.opencontainers.image.version"] not in ("", "unknown")
    assert len(labels["org.opencontainers.image.revision"].partition("+")[0]) == 40


def test_its_packages_are_the_locks(archive: Path) -> None:
    found = {
        path.split("/")[-2].removesuffix(".dist-info")
        for path in read(archive).files
        if path.startswith("opt/torus224/lib/") and path.endswith(".dist-info/METADATA")
    }
    asked = left_in(read_lock(REPOSITORY / "requirements.lock"), only=SMALL, without="")
    assert {name.lower() for name in found} == {
        f"{name.replace('-', '_')}-{pin}".lower() for name, pin in asked.items()
    }


@pytest.mark.parametrize("clean_env", [False, True])
def test_ranks_of_the_hosts_mpirun_are_one_world_with_and_without_the_hosts_environment(
    image: Image, clean_env: bool
) -> None:
    finding = check.ranks_of_the_host(image, clean_env=clean_env)
    assert finding.level == "ok", finding


def test_ranks_of_the_images_mpirun_are_one_world(image: Image) -> None:
    finding = check.ranks_of_the_image(image)
    assert finding.level == "ok", finding


def ranks(image: Image, *words: str) -> "subprocess.CompletedProcess[str]":
    """Ranks as a person starts them by hand, without the program that passes the launcher's words on."""
    return check.call([image.mpirun, "-n", str(RANKS), "--oversubscribe", "--bind-to", "none", image.runner, "exec",
                       *words, "--bind", str(REPOSITORY), "--pwd", str(REPOSITORY), str(image.sif), "python3", "-m",
                       "jobs.image.rank", str(RANKS)], check.START_S)  # fmt: skip


def test_an_image_with_an_older_open_mpi_stops_with_both_versions(
    image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    for prefix in ("APPTAINERENV", "SINGULARITYENV"):
        monkeypatch.setenv(f"{prefix}_MPI4PY_LIBMPI", OF_DEBIAN)
    with tempfile.TemporaryDirectory() as folder:
        job = check.job_of(image, RunFolder(folder), clean_env=True)
        done = check.start(image, job, ["python3", "-m", "jobs.image.rank", str(RANKS)])
    assert done.returncode == 1, done
    assert "rank " not in done.stdout
    lock = read_lock(REPOSITORY / "requirements.lock")
    assert f"MPI sees a world of one, but the launcher started {RANKS} processes" in done.stderr
    assert f"the launcher's MPI (Open MPI {lock['openmpi']}) and the program's (Open MPI v4." in done.stderr


def test_an_image_that_was_started_by_hand_without_the_launchers_words_stops_too(image: Image) -> None:
    done = ranks(image, "--cleanenv", "--env", f"PYTHONPATH={REPOSITORY}")
    assert done.returncode == 1, done
    assert "rank " not in done.stdout
    assert f"1 processes were started and the grid 1x{RANKS} needs {RANKS}" in done.stderr
    assert "--cleanenv keeps them from an image" in done.stderr
