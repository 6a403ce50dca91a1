"""Worlds that are not what was asked for stop at once, with what would do."""

import pytest

from pipeline.config import Grid
from pipeline.config.site import LinkConfig, NetworkConfig
from pipeline.errors import UserError
from pipeline.train import launched_rank
from pipeline.workers import best_first, check_world, node_by_node


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


def test_under_mpirun_in_slurm_every_rank_has_procid_0_and_mpiruns_own_word_counts() -> None:
    assert launched_rank({"SLURM_PROCID": "0", "OMPI_COMM_WORLD_RANK": "3"}) == 3
    assert launched_rank({"SLURM_PROCID": "2"}) == 2
    assert launched_rank({}) == 0


def test_ranks_dealt_by_turns_are_numbered_node_by_node() -> None:
    # mpirun --map-by node on two nodes of three: launched ranks 0, 2, 4 are on one and 1, 3, 5 on the other.
    ranks, layout = node_by_node([(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)])
    assert ranks == [0, 3, 1, 4, 2, 5]
    assert layout == ((0, 1, 2), (3, 4, 5))


def test_ranks_in_order_keep_their_numbers() -> None:
    ranks, layout = node_by_node([(0, 0), (0, 1), (2, 0), (2, 1)])
    assert ranks == [0, 1, 2, 3]
    assert layout == ((0, 1), (2, 3))


@pytest.mark.parametrize("nodes", [[0, 1, 2, 0, 1, 0], [0, 0, 2, 2, 2, 2], [0, 1, 1, 1, 0, 1], [0]])
def test_the_first_rank_stays_the_first_and_each_node_has_neighbours(nodes: list[int]) -> None:
    found = [(node, nodes[:launched].count(node)) for launched, node in enumerate(nodes)]
    ranks, layout = node_by_node(found)
    assert ranks[0] == 0
    assert sorted(ranks) == list(range(len(nodes)))
    assert [rank for node in layout for rank in node] == list(range(len(nodes)))
    for place, ranks_there in zip(dict.fromkeys(nodes), layout, strict=True):
        assert {ranks[launched] for launched, node in enumerate(nodes) if node == place} == set(ranks_there)


def test_legal_grids_are_listed_best_first_by_the_network() -> None:
    # Two nodes of four workers: rings of eight cross the slow link with the whole bucket,
    # columns of two with a quarter of it each.
    network = NetworkConfig(LinkConfig(50.0, 1.0), LinkConfig(1.0, 3.0))
    words = best_first(((0, 1, 2, 3), (4, 5, 6, 7)), network)
    assert words.startswith("2x4 (")
    assert {"1x8", "4x2", "8x1"} <= set(words.replace("(", " ").split())
