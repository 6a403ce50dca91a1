"""Worlds that are not what was asked for stop at once, with what would do."""

import pytest

from pipeline.config import Grid
from pipeline.errors import UserError
from pipeline.train import launched_rank
from pipeline.workers import check_world


def test_the_grids_world_passes() -> None:
    check_world(4, Grid(2, 2), {"OMPI_COMM_WORLD_SIZE": "4"})


def test_another_world_is_told_which_grids_would_do() -> None:
    with pytest.raises(UserError, match="grid 2x2 needs 4; start 4, or for 6 take one of the grids 1x6, 2x3, 3x2, 6x1"):
        check_world(6, Grid(2, 2), {})


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "TORUS224_WORLD_SIZE"])
def test_a_world_of_one_where_more_was_promised_is_named_even_if_one_would_do(name: str) -> None:
    with pytest.raises(UserError, match=f"world of one, but the launcher started 4 processes .{name}."):
        check_world(1, Grid(1, 1), {name: "4"})


def test_under_mpirun_in_slurm_every_rank_has_procid_0_and_mpiruns_own_word_counts() -> None:
    assert launched_rank({"SLURM_PROCID": "0", "OMPI_COMM_WORLD_RANK": "3"}) == 3
    assert launched_rank({"SLURM_PROCID": "2"}) == 2
    assert launched_rank({}) == 0
