"""Ranks are numbered node by node, whatever the launcher dealt, and the grids that would do are told best first."""

import pytest

from pipeline.config.site import LinkConfig, NetworkConfig
from pipeline.train import launched_rank
from pipeline.workers import best_first, node_by_node


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
