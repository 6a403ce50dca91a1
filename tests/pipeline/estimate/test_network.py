"""Steps of messages on a network of three levels, worked by hand.

Ports 50 GB/s and 1 µs, nodes 25 GB/s and 3 µs, racks 10 GB/s and 5 µs; two workers a node, two nodes a rack.
"""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.estimate.network import Level, Network, Wiring

NETWORK = Network(Level(50e9, 1e-6), Level(25e9, 3e-6), Level(10e9, 5e-6), nodes_per_rack=2)
NODE_OF_RANK = np.arange(8) // 2
WIRING = Wiring(NETWORK, NODE_OF_RANK)


def test_a_message_within_a_node_takes_the_ports_time() -> None:
    assert WIRING.step([0], [1], [1e6]).time_s == pytest.approx(1e-6 + 20e-6)


def test_a_message_between_nodes_takes_the_uplinks_time() -> None:
    assert WIRING.step([0], [2], [1e6]).time_s == pytest.approx(3e-6 + 40e-6)


def test_a_message_between_racks_takes_the_racks_time() -> None:
    assert WIRING.step([0], [4], [1e6]).time_s == pytest.approx(5e-6 + 100e-6)


def test_without_racks_all_nodes_are_neighbours() -> None:
    flat = Wiring(replace(NETWORK, rack=None, nodes_per_rack=None), NODE_OF_RANK)
    assert flat.step([0], [4], [1e6]).time_s == pytest.approx(3e-6 + 40e-6)


def test_messages_that_leave_a_node_share_its_uplink() -> None:
    assert WIRING.step([0, 1], [2, 3], 1e6).time_s == pytest.approx(3e-6 + 80e-6)


def test_messages_that_enter_a_node_share_its_uplink() -> None:
    assert WIRING.step([0, 6], [4, 5], [1e6, 3e6]).transfer_s == pytest.approx(160e-6)


def test_messages_that_leave_a_rack_share_its_uplink() -> None:
    assert WIRING.step([0, 2], [4, 6], 1e6).time_s == pytest.approx(5e-6 + 200e-6)


def test_links_are_full_duplex() -> None:
    assert WIRING.step([0, 2], [2, 0], 1e6).time_s == pytest.approx(3e-6 + 40e-6)


def test_a_port_is_shared_by_what_stays_in_the_node_and_what_leaves_it() -> None:
    # 4 MB out of rank 0's port, of which 1 MB goes out of its node.
    assert WIRING.step([0, 0], [1, 2], [3e6, 1e6]).transfer_s == pytest.approx(80e-6)


def test_a_step_has_the_latency_of_the_highest_level_and_the_time_of_the_busiest_link() -> None:
    assert WIRING.step([0, 4], [1, 6], [9e6, 0]).time_s == pytest.approx(3e-6 + 180e-6)


def test_a_message_without_bytes_still_takes_its_latency() -> None:
    assert WIRING.step([0], [2], [0]).time_s == pytest.approx(3e-6)


def test_what_a_worker_sends_itself_and_no_message_at_all_take_no_time() -> None:
    assert WIRING.step([3], [3], [1e9]).time_s == 0
    assert WIRING.step([], [], []).time_s == 0
    assert WIRING.steps([], [], [], []).time_s == 0


def test_a_worker_handles_its_messages_of_a_step_one_after_another() -> None:
    slow = Wiring(replace(NETWORK, hop_s=10e-6), NODE_OF_RANK)
    assert slow.step([0, 2], [1, 3], 0).time_s == pytest.approx(1e-6 + 10e-6)
    assert slow.step([1, 2, 3], [0, 0, 0], 0).time_s == pytest.approx(3e-6 + 30e-6)
    assert slow.step([0, 0], [2, 3], 0).time_s == pytest.approx(3e-6 + 20e-6)


def test_steps_follow_each_other() -> None:
    load = WIRING.steps([0, 0, 1, 3], [0, 1, 2, 4], [2, 3, 0, 5], [1e6, 1e6, 1e6, 2e6])
    assert load.latency_s == pytest.approx((3 + 3 + 1) * 1e-6)
    assert load.transfer_s == pytest.approx((80 + 40 + 40) * 1e-6)


def test_many_messages_in_steps_take_what_each_step_takes_alone() -> None:
    random = np.random.default_rng(0)
    step, source, destination = random.integers(0, (5, 8, 8), (200, 3)).T
    size = random.uniform(0, 1e6, 200)
    wiring = Wiring(replace(NETWORK, hop_s=2e-6), NODE_OF_RANK)
    alone = [wiring.step(source[step == one], destination[step == one], size[step == one]) for one in range(5)]
    together = wiring.steps(step, source, destination, size)
    assert together.time_s == pytest.approx(sum(load.time_s for load in alone))
    assert together.link_bytes == pytest.approx(sum(load.link_bytes for load in alone))


def test_bytes_that_a_node_sends_are_counted_on_its_uplink_only() -> None:
    load = WIRING.step([0, 1, 2, 0], [2, 4, 0, 1], [1, 20, 300, 4000])
    assert WIRING.sent_by_node(load.link_bytes).tolist() == [21, 300, 0, 0]


def test_ranks_may_be_on_nodes_in_any_order() -> None:
    dealt = Wiring(NETWORK, [0, 1, 2, 0, 1, 2])
    assert dealt.step([0], [3], [1e6]).time_s == pytest.approx(1e-6 + 20e-6)
    assert dealt.step([1], [5], [1e6]).time_s == pytest.approx(5e-6 + 100e-6)


@pytest.mark.parametrize(("rate", "latency"), [(0, 0), (-1, 0), (1, -1e-9), (float("nan"), 0), (1, float("nan"))])
def test_links_that_cannot_be_are_refused(rate: float, latency: float) -> None:
    with pytest.raises(ValueError, match="a link has"):
        Level(rate, latency)


def test_half_told_racks_are_refused() -> None:
    level = Level(1, 0)
    for rack, nodes in ((level, None), (None, 3), (level, 0)):
        with pytest.raises(ValueError, match="racks have"):
            Network(level, level, rack, nodes)
    with pytest.raises(ValueError, match="time goes forward"):
        Network(level, level, hop_s=-1)


@pytest.mark.parametrize("nodes", [[], [0, -1], [[0, 1]]])
def test_workers_that_are_nowhere_are_refused(nodes: list[int]) -> None:
    with pytest.raises(ValueError, match="node_of_rank"):
        Wiring(NETWORK, nodes)
