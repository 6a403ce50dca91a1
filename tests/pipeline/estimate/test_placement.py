"""A grid on nodes in words: no word where rows keep to whole nodes, one line with the cost and the cure where not."""

import re

import pytest

from pipeline.config.site import LinkConfig, NetworkConfig
from pipeline.estimate.algorithms import GridTime
from pipeline.estimate.network import Level, Network
from pipeline.estimate.placement import as_network, listed, node_by_node, warning

ABCI = Network(worker=Level(50e9, 5e-6), node=Level(25e9, 5e-6))
"""About ABCI: NVLink within a node of four GPUs, two cards of 100 Gbit/s out of it."""
RESNET_BYTES = 51.2e6
"""ResNet-50's 25.6 million gradients in fp16."""


@pytest.mark.parametrize("grid", [(34, 32), (32, 34), (17, 64), (1, 1088), (1088, 1)])
def test_a_row_of_whole_nodes_is_not_warned_of(grid: tuple[int, int]) -> None:
    whole = grid[1] % 4 == 0 or grid[1] == 1
    assert (warning(grid, node_by_node(1088, 4), ABCI, RESNET_BYTES) == "") == whole


def test_one_node_for_all_is_not_warned_of() -> None:
    for grid in ((2, 3), (3, 2), (1, 6), (6, 1)):
        assert warning(grid, node_by_node(6, None), ABCI, RESNET_BYTES) == ""


def test_rows_that_split_a_node_are_counted_and_the_best_grid_that_does_not_is_named() -> None:
    words = warning((32, 34), node_by_node(1088, 4), ABCI, RESNET_BYTES)
    assert "\n" not in words
    # 34 = 8 nodes and a half: every row shares one with its neighbour.
    assert words.startswith("32 of 32 rows split a node, so that its link carries two rows' traffic: ")
    vertical, horizontal = map(int, re.findall(r"take grid.vertical=(\d+) grid.horizontal=(\d+)$", words)[0])
    assert vertical * horizontal == 1088
    assert horizontal % 4 == 0 or horizontal in (1, 2)
    here_ms, best_ms = (float(time) for time in re.findall(r"([\d.]+) ms", words))
    assert best_ms < here_ms


def test_where_the_workers_ports_are_the_narrowest_a_split_node_costs_nothing_and_is_not_warned_of() -> None:
    slow_ports = Network(worker=Level(1e9, 5e-6), node=Level(25e9, 5e-6))
    assert warning((32, 34), node_by_node(1088, 4), slow_ports, RESNET_BYTES) == ""


def test_grids_are_listed_the_best_first_with_their_times_and_what_splits() -> None:
    grids = [GridTime(2, 2, 1.31e-3, 1 << 20, False), GridTime(1, 4, 1.95e-3, 1 << 20, True)]
    assert listed(grids) == "2x2 (1.31 ms), 1x4 (1.95 ms, splits a node)"
    assert listed(grids, most=1) == "2x2 (1.31 ms), …"
    assert listed(grids * 3) == listed(grids * 2) + ", 2x2 (1.31 ms), …"


def test_ranks_fill_one_node_after_another() -> None:
    assert node_by_node(7, 3) == [0, 0, 0, 1, 1, 1, 2]
    assert node_by_node(3, None) == [0, 0, 0]


def test_a_sites_network_is_in_bytes_and_seconds() -> None:
    link, rack = LinkConfig(12.5, 4.0), LinkConfig(100.0, 8.0)
    plain = as_network(NetworkConfig(worker=link, node=link))
    assert (plain.worker, plain.rack) == (Level(12.5e9, 4e-6), None)
    racks = as_network(NetworkConfig(worker=link, node=link, rack=rack, nodes_per_rack=34))
    assert (racks.rack, racks.nodes_per_rack) == (Level(100e9, 8e-6), 34)
