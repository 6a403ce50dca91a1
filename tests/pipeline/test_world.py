"""Worlds that are not what was asked for stop at once, with both sides' versions and with what would do."""

import re

import pytest

from pipeline.config import Grid
from pipeline.errors import UserError
from pipeline.world import check_world, launcher_mpi, program_mpi

OPEN_MPI_4 = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022"
"""What MPI_Get_library_version says of Debian 12's."""


def test_the_grids_world_passes() -> None:
    check_world(4, Grid(2, 2), {"OMPI_COMM_WORLD_SIZE": "4"})


def test_another_world_is_told_which_grids_would_do() -> None:
    with pytest.raises(UserError, match="grid 2x2 needs 4; start 4, or for 6 take one of the grids 1x6, 2x3, 3x2, 6x1"):
        check_world(6, Grid(2, 2), {})


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "TORUS224_WORLD_SIZE"])
def test_a_world_of_one_where_more_was_promised_is_named_even_if_one_would_do(name: str) -> None:
    with pytest.raises(UserError, match=f"world of one, but the launcher started 4 processes .{name}."):
        check_world(1, Grid(1, 1), {name: "4"})


def test_a_job_that_fell_into_two_worlds_is_told_so() -> None:
    with pytest.raises(UserError, match=r"a world of 8, but the launcher started 16 processes .TORUS224_WORLD_SIZE."):
        check_world(8, Grid(2, 4), {"TORUS224_WORLD_SIZE": "16"})
    check_world(8, Grid(2, 4), {"SLURM_NTASKS": "16"})  # a launch on a part of an allocation


def test_both_sides_versions_stand_in_the_line() -> None:
    # What mpirun 5.0.11 leaves a rank in whose image is an Open MPI that does not read it.
    environment = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_VERSION": "5.0.11", "PMIX_VERSION": "5.0.11rc1"}
    expected = "launcher's MPI (Open MPI 5.0.11) and the program's (Open MPI v4.1.4) do not meet"
    with pytest.raises(UserError, match=re.escape(expected)):
        check_world(1, Grid(2, 2), environment, mpi=program_mpi(OPEN_MPI_4))


def test_an_image_that_hides_the_launchers_words_is_met_by_the_grid() -> None:
    with pytest.raises(UserError, match=r"the grid 2x2 needs 4; .*Open MPI v4\.1\.4\) do not meet.*--cleanenv"):
        check_world(1, Grid(2, 2), {}, mpi=program_mpi(OPEN_MPI_4))
    check_world(1, Grid(1, 1), {})


def test_open_mpi_4_tells_its_pmix_alone() -> None:
    assert launcher_mpi({"OMPI_MCA_orte_num_nodes": "1", "PMIX_VERSION": "4.2.2"}) == "Open MPI 4 (PMIx 4.2.2)"
    assert launcher_mpi({"PMIX_VERSION": "4.2.2"}) == "PMIx 4.2.2"
    assert launcher_mpi({}) == ""
