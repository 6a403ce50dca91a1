"""What all-reduces take: against SimGrid, against sums worked by hand, and in what must hold for all of them.

The network of the sums: ports 50 GB/s and 1 µs, nodes 25 GB/s and 3 µs, racks 34 nodes with 34 * 25/3 GB/s and 5 µs.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.estimate.algorithms import (
    best_chunk_bytes,
    bound_s,
    estimate,
    legal_grids,
    link_bytes,
    split_rows,
)
from pipeline.estimate.network import Level, Network

NETWORK = Network(Level(50e9, 1e-6), Level(25e9, 3e-6), Level(34 * 25e9 / 3, 5e-6), nodes_per_rack=34)
ALGORITHMS = ["torus", "ring", "hierarchical", "hybrid", "multicolor", "tree", "native"]
SIZE = 51e6
US = 1e-6

Grid = tuple[int, int]
Nodes = NDArray[np.int64]


def node_by_node(workers: int, per_node: int = 4) -> Nodes:
    return np.arange(workers) // per_node


def round_robin(workers: int, per_node: int = 4) -> Nodes:
    return np.arange(workers) % (workers // per_node)


def seconds(name: str, grid: Grid, nodes: Nodes, network: Network = NETWORK, size: float = SIZE) -> float:
    return estimate(name, size, grid, nodes, network).time_s


@pytest.mark.parametrize(
    ("name", "grid", "size_bytes", "simgrid_ms"),
    [
        ("ring", (1, 16), 51e6, 3.917),
        ("ring", (1, 64), 51e6, 4.396),
        ("ring", (1, 272), 51e6, 6.777),
        ("ring", (1, 1088), 51e6, 14.950),
        ("ring", (1, 2176), 51.1e6, 25.836),
        ("torus", (4, 4), 51e6, 4.616),
        ("torus", (8, 8), 51e6, 5.408),
        ("torus", (17, 16), 51e6, 5.086),
        ("torus", (68, 4), 51e6, 6.230),
        ("torus", (34, 32), 51e6, 5.140),
        ("torus", (34, 64), 51e6, 5.250),
        ("torus", (68, 32), 51.1e6, 5.444),
        ("torus", (544, 4), 51.1e6, 11.049),
        ("torus", (64, 64), 51.1e6, 5.639),
        ("torus", (32, 34), 51e6, 8.91),
    ],
)
def test_it_agrees_with_simgrid_within_two_percent(name: str, grid: Grid, size_bytes: float, simgrid_ms: float) -> None:
    nodes = node_by_node(grid[0] * grid[1])
    assert seconds(name, grid, nodes, size=size_bytes) * 1e3 == pytest.approx(simgrid_ms, rel=0.02)


def test_a_flat_ring_of_sixteen_takes_thirty_steps_of_a_sixteenth() -> None:
    assert seconds("ring", (4, 4), node_by_node(16)) == pytest.approx(30 * (SIZE / 16 / 25e9 + 3 * US))


def test_a_torus_of_four_nodes_takes_six_steps_on_ports_and_six_on_uplinks() -> None:
    row, column = SIZE / 4 / 50e9 + 1 * US, SIZE / 4 / 25e9 + 3 * US  # four columns of a sixteenth share an uplink
    phases = estimate("torus", SIZE, (4, 4), node_by_node(16), NETWORK).phases
    assert [phase.time_s for phase in phases] == pytest.approx([3 * row, 3 * column, 3 * column, 3 * row])
    assert [phase.steps for phase in phases] == [3, 3, 3, 3]


def test_the_hierarchical_one_takes_chains_of_the_whole_and_a_ring_of_quarters() -> None:
    expected = 6 * (SIZE / 50e9 + 1 * US) + 6 * (SIZE / 4 / 25e9 + 3 * US)
    assert seconds("hierarchical", (4, 4), node_by_node(16)) == pytest.approx(expected)


def test_the_hierarchical_one_waits_for_the_largest_node() -> None:
    expected = 4 * (SIZE / 50e9 + 1 * US) + 2 * (SIZE / 2 / 25e9 + 3 * US)  # a ring of two has one step each way
    assert seconds("hierarchical", (1, 4), np.array([0, 1, 0, 0])) == pytest.approx(expected)


def test_four_colors_on_four_nodes_are_stars_that_fill_every_link_alike() -> None:
    expected = 2 * (3 * SIZE / 4 / 25e9 + 3 * US)
    assert seconds("multicolor", (1, 4), np.arange(4)) == pytest.approx(expected)


def test_two_trees_on_two_nodes_exchange_halves() -> None:
    assert seconds("tree", (1, 2), np.arange(2)) == pytest.approx(2 * (SIZE / 2 / 25e9 + 3 * US))


def test_two_trees_on_six_nodes_take_two_levels_each_way() -> None:
    # Each tree has a member with two children on either level, so a whole message enters it in two halves.
    assert seconds("tree", (2, 3), np.arange(6)) == pytest.approx(4 * (SIZE / 25e9 + 3 * US))


def test_gloos_own_is_a_flat_ring() -> None:
    for nodes in (node_by_node(16), round_robin(16)):
        assert seconds("native", (4, 4), nodes) == seconds("ring", (4, 4), nodes)


def test_hybrid_is_a_ring_from_its_threshold_on_and_hierarchical_below() -> None:
    for size, name in ((999, "hierarchical"), (1000, "ring"), (1001, "ring")):
        hybrid = estimate("hybrid", size, (16, 16), node_by_node(256), NETWORK, threshold_bytes=1000)
        assert hybrid.time_s == seconds(name, (16, 16), node_by_node(256), size=size)


def test_hybrid_without_a_threshold_is_hierarchical_where_latency_rules() -> None:
    nodes = node_by_node(256)
    assert seconds("hybrid", (16, 16), nodes, size=1e3) == seconds("hierarchical", (16, 16), nodes, size=1e3)


@pytest.mark.parametrize(
    ("name", "messages"), [("torus", 1.5), ("ring", 1.875), ("hierarchical", 1.5), ("native", 1.875)]
)
def test_four_nodes_of_four_send_what_theory_says(name: str, messages: float) -> None:
    sent = link_bytes(name, SIZE, (4, 4), node_by_node(16), NETWORK)
    assert sent == pytest.approx(np.full(4, messages * SIZE))


def test_trees_send_as_much_as_a_ring_of_nodes_on_average() -> None:
    # A tree has N-1 edges, and each carries its part of the message both ways.
    for name in ("tree", "multicolor"):
        assert link_bytes(name, SIZE, (4, 8), node_by_node(32), NETWORK).mean() == pytest.approx(2 * 7 / 8 * SIZE)


def test_ranks_dealt_round_robin_slow_a_flat_ring_about_fourfold() -> None:
    # Measured on four nodes of four: 3.7 times.
    slower = seconds("ring", (4, 4), round_robin(16)) / seconds("ring", (4, 4), node_by_node(16))
    assert 3 < slower < 5


def test_rows_laid_across_nodes_slow_a_torus_several_times() -> None:
    # Measured on four nodes of four, where the uplinks are all that counts: 4.9 times.
    network = replace(NETWORK, worker=Level(1e12, 0))
    slower = seconds("torus", (4, 4), round_robin(16), network) / seconds("torus", (4, 4), node_by_node(16), network)
    assert 3 < slower < 6


def test_latency_gives_the_torus_a_lead_of_about_three() -> None:
    # Measured at 10 ms round trip, 100 Mbit/s a node and 0.4 MB: flat/torus = 2.9.
    network = Network(Level(1e9, 50 * US), Level(100e6 / 8, 5e-3))
    lead = seconds("ring", (4, 4), node_by_node(16), network, 0.4e6)
    lead /= seconds("torus", (4, 4), node_by_node(16), network, 0.4e6)
    assert lead == pytest.approx(2.9, rel=0.1)


def test_chunks_follow_each_other_at_the_pace_of_the_link_that_phases_share() -> None:
    torus = estimate("torus", SIZE, (4, 4), node_by_node(16), NETWORK)
    first = (6 * 1 + 6 * 3) * US + 1.5 * SIZE / 16 / 50e9 + 1.5 * SIZE / 16 / 25e9
    assert torus.pipelined_s(16) == pytest.approx(first + 15 * 1.5 * SIZE / 16 / 25e9)


def test_chunks_follow_each_other_at_the_pace_of_the_slowest_phase_where_latency_rules() -> None:
    torus = estimate("torus", 16e3, (4, 4), node_by_node(16), NETWORK)
    column = 3 * (1e3 / 4 / 25e9 + 3 * US)
    row = 3 * (1e3 / 4 / 50e9 + 1 * US)
    assert torus.pipelined_s(16) == pytest.approx(2 * row + 2 * column + 15 * column)


def test_a_chain_takes_the_next_chunk_as_soon_as_it_has_passed_one_on() -> None:
    chains = estimate("hierarchical", SIZE, (1, 4), node_by_node(4), NETWORK)
    hop = SIZE / 10 / 50e9
    assert chains.pipelined_s(10) == pytest.approx(6 * (hop + 1 * US) + 9 * 2 * hop)  # a port sends it up and down


def test_software_is_paid_once_a_message() -> None:
    slow = replace(NETWORK, hop_s=100 * US)
    assert seconds("ring", (4, 4), node_by_node(16), slow) == pytest.approx(30 * (SIZE / 16 / 25e9 + 103 * US))
    # Four stars: a root has three messages to take, then three to send; so has everyone as a leaf.
    expected = 2 * (3 * SIZE / 4 / 25e9 + 303 * US)
    assert seconds("multicolor", (1, 4), np.arange(4), slow) == pytest.approx(expected)


def test_a_mebibyte_suits_a_torus_of_four_nodes() -> None:
    # 195 chunks of 2^18: 24 + 24 + 194 * 16.8 = 3316 µs, the column's latency is the bottleneck. From 98 of 2^19 on the
    # links are: 24 + 47 + 97 * 31.2 = 3100 µs. 49 of 2^20: 24 + 94 + 48 * 62.4 = 3115 µs, as good. 25 of 2^21:
    # 24 + 184 + 24 * 122.4 = 3145 µs, 1.5 % more than the fastest.
    assert best_chunk_bytes("torus", SIZE, (4, 4), node_by_node(16), NETWORK) == 2**20


def test_nothing_is_cut_where_pipelining_gains_nothing() -> None:
    assert best_chunk_bytes("ring", SIZE, (4, 4), node_by_node(16), NETWORK) == 2**26
    for name in ALGORITHMS:
        assert best_chunk_bytes(name, 1000, (4, 4), node_by_node(16), NETWORK) == 2**14


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("size", [0, 1, 16384, 16385, 1e6, 51e6])
def test_a_chunk_is_a_power_of_two_from_sixteen_kibibytes_up(name: str, size: float) -> None:
    chunk = best_chunk_bytes(name, size, (8, 8), node_by_node(64), NETWORK)
    assert chunk >= 2**14
    assert chunk & (chunk - 1) == 0
    assert chunk == 2**14 or chunk < 2 * size


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(("grid", "per_node"), [((4, 4), 4), ((2, 17), 2), ((3, 5), 1), ((8, 16), 8), ((1, 6), 4)])
def test_none_is_faster_than_the_bound_in_any_number_of_chunks(name: str, grid: Grid, per_node: int) -> None:
    nodes = node_by_node(grid[0] * grid[1], per_node)
    found = estimate(name, SIZE, grid, nodes, NETWORK)
    assert found.pipelined_s(1) == found.time_s
    assert min(found.pipelined_s(chunks) for chunks in (1, 2, 3, 10, 100)) > bound_s(SIZE, nodes, NETWORK)


def test_the_bound_of_four_nodes_is_one_and_a_half_messages() -> None:
    assert bound_s(SIZE, node_by_node(16), NETWORK) == pytest.approx(1.5 * SIZE / 25e9)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_more_bytes_and_slower_links_take_longer(name: str) -> None:
    nodes = node_by_node(16)
    sizes = [seconds(name, (4, 4), nodes, size=size) for size in (0, 1, 1e3, 1e6, 1e9)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == len(sizes)
    usual = seconds(name, (4, 4), nodes)
    assert seconds(name, (4, 4), nodes, replace(NETWORK, node=Level(12.5e9, 3e-6))) > usual
    assert seconds(name, (4, 4), nodes, replace(NETWORK, node=Level(25e9, 30e-6))) > usual
    assert seconds(name, (4, 4), nodes, replace(NETWORK, hop_s=1e-6)) > usual


@pytest.mark.parametrize("name", ALGORITHMS)
def test_one_worker_and_no_bytes_take_no_time(name: str) -> None:
    alone = estimate(name, SIZE, (1, 1), [0], NETWORK)
    nothing = estimate(name, 0, (4, 4), node_by_node(16), NETWORK)
    assert alone.time_s == alone.pipelined_s(7) == nothing.time_s == nothing.pipelined_s(7) == 0
    assert not link_bytes(name, 0, (4, 4), node_by_node(16), NETWORK).any()


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("nodes", [[0] * 6, [0, 1, 2, 3, 4, 5], [0, 0, 0, 0, 0, 1], [5, 1, 5, 1, 1, 0]])
def test_workers_may_be_on_nodes_in_any_way(name: str, nodes: list[int]) -> None:
    assert estimate(name, SIZE, (2, 3), nodes, NETWORK).time_s > 0


def test_on_one_node_no_uplink_is_used() -> None:
    for name in ALGORITHMS:
        assert link_bytes(name, SIZE, (2, 2), [0] * 4, NETWORK).tolist() == [0]
    assert bound_s(SIZE, [0] * 4, NETWORK) == 0


def test_the_grid_that_meets_the_bound_comes_first_for_large_messages() -> None:
    grids = legal_grids(16, node_by_node(16), NETWORK, 1e9)
    assert (grids[0].vertical, grids[0].horizontal) == (4, 4)
    assert {(one.vertical, one.horizontal) for one in grids} == {(1, 16), (2, 8), (4, 4), (8, 2), (16, 1)}


def test_the_square_comes_first_for_small_messages() -> None:
    # 2(V-1) + 2(H-1) steps, each crossing nodes.
    flat = replace(NETWORK, rack=None, nodes_per_rack=None)
    grids = legal_grids(1024, node_by_node(1024), flat, 1024)
    assert (grids[0].vertical, grids[0].horizontal) == (32, 32)


def test_grids_say_whether_they_split_nodes() -> None:
    splits = {
        (one.vertical, one.horizontal): one.splits_a_node
        for one in legal_grids(1088, node_by_node(1088), NETWORK, SIZE)
    }
    assert splits[32, 34]
    assert not splits[34, 32]
    assert not splits[272, 4]
    assert not splits[544, 2]


def test_one_worker_has_one_grid() -> None:
    (only,) = legal_grids(1, [0], NETWORK, SIZE)
    assert (only.vertical, only.horizontal, only.time_s, only.splits_a_node) == (1, 1, 0, False)


@pytest.mark.parametrize(
    ("grid", "nodes", "rows"),
    [
        ((2, 3), [0, 0, 1, 1, 2, 2], (0, 1)),  # node 1 has the end of a row and the start of the next
        ((2, 4), [0, 0, 1, 1, 2, 2, 3, 3], ()),  # two whole nodes a row
        ((4, 2), [0, 0, 0, 0, 1, 1, 1, 1], ()),  # two whole rows a node
        ((2, 2), [0, 0, 0, 1], (1,)),  # the first row is inside node 0
        ((4, 4), [0, 1, 2, 3] * 4, (0, 1, 2, 3)),  # dealt round-robin
        ((3, 3), [0, 0, 0, 1, 1, 2, 2, 3, 3], (1, 2)),  # the first row is a node of its own
        ((1, 4), [0, 1, 0, 1], ()),  # one row has all of every node
        ((1, 1), [0], ()),
    ],
)
def test_rows_of_several_nodes_that_share_one_with_another_row_split_it(
    grid: Grid, nodes: list[int], rows: tuple[int, ...]
) -> None:
    assert split_rows(grid, nodes) == rows


def test_what_cannot_be_is_refused() -> None:
    nodes = node_by_node(16)
    with pytest.raises(ValueError, match="no all-reduce tours; there are torus, ring"):
        estimate("tours", SIZE, (4, 4), nodes, NETWORK)
    for grid in ((4, 5), (0, 16), (-4, -4)):
        with pytest.raises(ValueError, match="not one of 16 workers"):
            estimate("ring", SIZE, grid, nodes, NETWORK)
        with pytest.raises(ValueError, match="not one of 16 workers"):
            split_rows(grid, nodes)
    for size in (-1, float("nan")):
        with pytest.raises(ValueError, match="bytes"):
            estimate("ring", size, (4, 4), nodes, NETWORK)
    with pytest.raises(ValueError, match="not one of 16 workers"):
        legal_grids(8, nodes, NETWORK, SIZE)
    with pytest.raises(ValueError, match="at least one chunk"):
        estimate("ring", SIZE, (4, 4), nodes, NETWORK).pipelined_s(0)
