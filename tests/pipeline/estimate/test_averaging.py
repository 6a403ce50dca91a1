"""Buckets of several sizes at once say what one estimate says of each; and what must hold for any network."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.estimate.algorithms import best_chunk_bytes, estimate
from pipeline.estimate.averaging import AllReducePlan, average
from pipeline.estimate.network import Level, Network, Wiring

ALGORITHMS = ["torus", "ring", "hierarchical", "hybrid", "multicolor", "tree"]
RATES = st.floats(1e6, 1e12)
LATENCIES = st.floats(0, 1e-2)
LEVELS = st.builds(Level, RATES, LATENCIES)
GRIDS = st.tuples(st.integers(1, 6), st.integers(1, 6))
PER_NODE = st.integers(1, 8)
SIZES = st.floats(1, 1e9)


@st.composite
def networks(draw: Callable[[st.SearchStrategy[Level]], Level]) -> Network:
    return Network(draw(LEVELS), draw(LEVELS), draw(LEVELS), nodes_per_rack=3)


def wired(network: Network, grid: tuple[int, int], per_node: int) -> Wiring:
    return Wiring(network, np.arange(grid[0] * grid[1]) // per_node)


def seconds(name: str, size: float, grid: tuple[int, int], wiring: Wiring) -> float:
    return average(AllReducePlan(name), [size], grid, wiring)[0].time_s


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(ALGORITHMS), network=networks(), grid=GRIDS, per_node=PER_NODE, size=SIZES)
def test_it_is_the_pipelined_estimate_in_its_best_chunks(
    name: str, network: Network, grid: tuple[int, int], per_node: int, size: float
) -> None:
    wiring = wired(network, grid, per_node)
    (found,) = average(AllReducePlan(name, ring_from_bytes=10**6), [size], grid, wiring)
    asked = (name, size, grid, wiring.node_of_rank, network)
    whole = estimate(*asked, threshold_bytes=1e6)
    chunks = max(1, int(np.ceil(size / found.chunk_bytes)))
    assert found.time_s == pytest.approx(whole.pipelined_s(chunks), rel=1e-9, abs=1e-15)
    best = best_chunk_bytes(*asked, threshold_bytes=1e6)
    in_best_s = whole.pipelined_s(max(1, int(np.ceil(size / best))))
    assert found.time_s * (1 - 1e-9) <= in_best_s <= found.time_s * 1.0101 + 1e-15


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(ALGORITHMS), network=networks(), grid=GRIDS, per_node=PER_NODE, size=SIZES,
    level=st.sampled_from(["worker", "node", "rack"]), factor=st.floats(1, 100),
)  # fmt: skip
def test_more_bandwidth_is_never_slower(
    name: str, network: Network, grid: tuple[int, int], per_node: int, size: float, level: str, factor: float
) -> None:
    old = getattr(network, level)
    faster = Network(**{**vars(network), level: Level(old.rate_bytes_per_s * factor, old.latency_s)})
    before, after = (seconds(name, size, grid, wired(one, grid, per_node)) for one in (network, faster))
    assert after <= before * (1 + 1e-9)


@settings(max_examples=15, deadline=None)
@given(name=st.sampled_from(ALGORITHMS), network=networks(), size=SIZES)
def test_a_grid_of_one_costs_nothing(name: str, network: Network, size: float) -> None:
    assert seconds(name, size, (1, 1), wired(network, (1, 1), 4)) == 0


@settings(max_examples=20, deadline=None)
@given(network=networks(), workers=st.integers(1, 30), per_node=PER_NODE, size=SIZES)
def test_a_torus_of_one_column_is_the_ring(network: Network, workers: int, per_node: int, size: float) -> None:
    grid = workers, 1
    nodes = np.arange(workers) // per_node
    torus, ring = (estimate(name, size, grid, nodes, network) for name in ("torus", "ring"))
    assert torus.time_s == pytest.approx(ring.time_s)
    assert torus.link_bytes == pytest.approx(ring.link_bytes)


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(ALGORITHMS), network=networks(), grid=GRIDS, per_node=PER_NODE, size=SIZES)
def test_what_links_send_others_receive(
    name: str, network: Network, grid: tuple[int, int], per_node: int, size: float
) -> None:
    wiring = wired(network, grid, per_node)
    sent = estimate(name, size, grid, wiring.node_of_rank, network, threshold_bytes=1e6).link_bytes
    counts = np.repeat([wiring.workers, wiring.nodes, wiring.racks], 2)
    sums = [part.sum() for part in np.split(sent, np.cumsum(counts)[:-1])]
    assert sums[0::2] == pytest.approx(sums[1::2])  # out and in, on each level
    assert sums[0] >= sums[2] * (1 - 1e-9)  # what leaves a node has left a port, and a rack a node
    assert sums[2] >= sums[4] * (1 - 1e-9)


@settings(max_examples=20, deadline=None)
@given(network=networks(), grid=GRIDS, per_node=PER_NODE, size=SIZES)
def test_a_shift_is_a_step_of_equal_messages(
    network: Network, grid: tuple[int, int], per_node: int, size: float
) -> None:
    wiring = wired(network, grid, per_node)
    ranks = np.arange(wiring.workers)[:: max(1, grid[1] // 2)]
    for senders, receivers in ((ranks, np.roll(ranks, -1)), (ranks[::-1], np.roll(ranks[::-1], 1))):
        shift, step = wiring.shift(senders, receivers, size), wiring.step(senders, receivers, size)
        assert (shift.latency_s, shift.host_s) == (step.latency_s, step.host_s)
        assert shift.transfer_s == pytest.approx(step.transfer_s)
        assert shift.link_bytes == pytest.approx(step.link_bytes)


def test_all_grids_of_a_hundred_thousand_are_finite() -> None:
    network = Network(Level(50e9, 1e-6), Level(25e9, 3e-6), Level(34 * 25e9 / 3, 5e-6), nodes_per_rack=34)
    wiring = Wiring(network, np.arange(100_000) // 4)
    grids = [(side, 100_000 // side) for side in range(1, 100_001) if 100_000 % side == 0]
    assert len(grids) == 36
    for grid in grids:
        assert 0 < seconds("torus", 25e6, grid, wiring) < np.inf
