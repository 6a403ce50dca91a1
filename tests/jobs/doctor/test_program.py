"""What ranks run is started once, as a rank is, and its MPI compared with the launcher's."""

from pathlib import Path

import pytest

from jobs.doctor import program
from tests.jobs.doctor.conftest import StandIn
from tests.jobs.doctor.subjects import at_site, subject


def test_here_the_versions_are_those_of_this_python() -> None:
    finding, versions = program.inside(subject())
    assert finding.level == "ok"
    assert {"Python", "torch", "mpi4py", "Open MPI", "PMIx"} == set(versions)
    assert program.together(subject(), versions).level == "ok"


MEETINGS = {
    ("4.1.4", "4.1.4"): "ok",
    ("4.1.4", "5.0.11"): "ok",
    ("5.0.11", "5.0.11"): "ok",
    ("5.0.11", "4.1.4"): "FAIL",
}
"""Launcher's and program's Open MPI: each was tried with real images."""


@pytest.mark.parametrize("pair", MEETINGS)
def test_versions_that_split_a_world_into_ones_are_refused_with_a_table(pair: tuple[str, str]) -> None:
    launcher, inside = ({"Open MPI": version, "PMIx": version} for version in pair)
    finding = program.compare(launcher, inside)
    assert finding.level == MEETINGS[pair]
    assert [row.split() for row in finding.table] == [["launcher", "program"], ["Open", "MPI", *pair], ["PMIx", *pair]]


def test_another_mpi_in_the_program_is_refused() -> None:
    finding = program.compare({"Open MPI": "4.1.4"}, {"MPI": "MPICH Version: 4.2"})
    assert (finding.level, finding.found) == ("FAIL", "MPICH Version: 4.2 in the program")


def test_an_unknown_launcher_is_a_warning() -> None:
    assert program.compare({}, {"Open MPI": "4.1.4"}).level == "warn"


@pytest.fixture
def sif(tmp_path: Path) -> Path:
    path = tmp_path / "a.sif"
    path.write_text("")
    return path


def test_an_image_is_asked_as_a_rank_would_be_started(stand_in: StandIn, sif: Path, tmp_path: Path) -> None:
    stand_in(
        "apptainer",
        f"""
[ "$1" != --version ] || {{ echo 'apptainer version 1.4.5'; exit; }}
echo "$*" > {tmp_path}/words
echo 'torus224 {{"Python": "3.11.2", "torch": "2.9", "mpi4py": "4.1", "Open MPI": "5.0.11"}}'""",
    )
    there = at_site("slurm", "container=apptainer", f"container.image={sif}")
    assert program.container(there).found == "apptainer version 1.4.5"
    assert program.image(there).level == "ok"
    finding, versions = program.inside(there)
    assert finding.found == "Python 3.11.2, torch 2.9, mpi4py 4.1, Open MPI 5.0.11"
    assert versions["Open MPI"] == "5.0.11"
    words = (tmp_path / "words").read_text()
    assert words.startswith("exec --no-home --bind ")
    assert f"{sif} python3 -c " in words
    assert "--nv" not in words  # a login node has none


def test_an_image_without_torch_fails_with_pythons_words(stand_in: StandIn, sif: Path) -> None:
    stand_in("apptainer", """echo 'torus224 {"Python": "3.11.2", "error": "ImportError: No module named torch"}'""")
    finding, versions = program.inside(at_site("slurm", "container=apptainer", f"container.image={sif}"))
    assert (finding.level, finding.found) == ("FAIL", "Python 3.11.2, and ImportError: No module named torch")
    assert versions == {"Python": "3.11.2"}


def test_an_image_that_does_not_start_fails(stand_in: StandIn, sif: Path) -> None:
    stand_in("apptainer", "echo 'FATAL: mount failed' >&2; exit 255")
    there = at_site("slurm", "container=apptainer", f"container.image={sif}")
    finding, versions = program.inside(there)
    assert (finding.level, finding.found) == ("FAIL", "FATAL: mount failed")
    assert program.together(there, versions).level == "skip"


def test_an_absent_image_or_container_program_fails(stand_in: StandIn, tmp_path: Path) -> None:
    del stand_in
    there = at_site("slurm", "container=singularity", f"container.image={tmp_path}/no.sif")
    assert program.container(there).found.startswith("singularity not found")
    assert program.image(there).found == f"no {tmp_path}/no.sif"
    assert program.image(at_site("slurm", "container=apptainer", "container.image=oras://a/b")).level == "warn"


def test_docker_is_asked_for_its_images(stand_in: StandIn) -> None:
    stand_in("docker", '[ "${@: -1}" = torus224:latest ] || { echo "No such image: ${@: -1}" >&2; exit 1; }')
    assert program.image(at_site("slurm", "container=docker", "container.image=torus224:latest")).level == "ok"
    finding = program.image(at_site("slurm", "container=docker", "container.image=other"))
    assert (finding.level, finding.found) == ("FAIL", "No such image: other")


def test_without_a_container_program_or_an_image_python_is_not_tried(stand_in: StandIn, tmp_path: Path) -> None:
    del stand_in
    there = at_site("slurm", "container=singularity", f"container.image={tmp_path}/no.sif")
    finding, versions = program.inside(there, [program.container(there), program.image(there)])
    assert (finding.level, finding.found) == ("skip", "it needs the container program and the image")
    assert versions == {}
