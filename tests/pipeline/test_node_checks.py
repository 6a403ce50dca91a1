"""Nodes that are not alike are named, with which has what; all ranks are told the same."""

from dataclasses import replace

from pipeline.node_checks import judge
from pipeline.node_facts import Facts

NODE = Facts("", 1_000.0, ("NVIDIA H200",) * 8, "570.1", (), ())
VERSIONS = {"Python": "3.11.7", "torch": "2.14.1", "MPI": "Open MPI v4.1.7"}


def nodes(count: int) -> list[Facts]:
    return [replace(NODE, host=f"node{number}") for number in range(count)]


def ranks(count: int) -> list[int]:
    """Two on each node, which is called by its first rank."""
    return [rank // 2 * 2 for rank in range(2 * count)]


def test_nodes_that_are_alike_are_told_in_a_line_a_check() -> None:
    verdict = judge(nodes(2), ranks(2), [VERSIONS] * 4, way="10.0.0.1")
    assert verdict.faults == ()
    assert verdict.report.warnings == ()
    assert verdict.report.hosts == ("node0", "node1")
    assert verdict.report.lines == (
        "nodes: 2 (node0, node1), 4 ranks",
        "the first rank listens on: 10.0.0.1",
        "Python: 3.11.7",
        "torch: 2.14.1",
        "MPI: Open MPI v4.1.7",
        "GPUs: 8 x NVIDIA H200",
        "NVIDIA driver: 570.1",
        "clocks: within 0.0 s",
    )


def test_nodes_without_gpus_have_no_line_of_them() -> None:
    found = [replace(node, gpus=(), driver="") for node in nodes(2)]
    verdict = judge(found, ranks(2), [VERSIONS] * 4, way="10.0.0.1")
    assert verdict.faults == ()
    assert not [line for line in verdict.report.lines if "GPU" in line or "NVIDIA" in line]


def test_the_node_with_another_gpu_or_driver_is_named() -> None:
    found = nodes(3)
    found[1] = replace(found[1], gpus=("NVIDIA H200",) * 7, driver="550.9")
    faults = judge(found, ranks(3), [VERSIONS] * 6, way="10.0.0.1").faults
    assert faults[0].startswith("nodes differ in GPUs: 7 x NVIDIA H200 on node1, and 8 x NVIDIA H200 on node0, node2; ")
    assert faults[1].startswith("nodes differ in NVIDIA driver: 550.9 on node1, and 570.1 on node0, node2; ")


def test_ranks_of_another_version_are_named_by_their_node_however_they_were_dealt() -> None:
    by_turns = [0, 1, 0, 1]
    versions = [VERSIONS, VERSIONS, VERSIONS, VERSIONS | {"torch": "2.13.0"}]
    (fault,) = judge(nodes(2), by_turns, versions, way="10.0.0.1").faults
    assert fault.startswith(
        "nodes differ in torch: 2.13.0 on node1, and 2.14.1 on node0, node1; start all ranks from one image"
    )


def test_what_many_nodes_tell_alike_is_one_line() -> None:
    found = [replace(node, faults=("no card",), warnings=("no disk",)) for node in nodes(100)]
    verdict = judge(found, ranks(100), [VERSIONS] * 200, way="10.0.0.1")
    assert verdict.faults == ("node0, node1, node2, node3 and 96 more nodes: no card",)
    assert verdict.report.warnings == ("node0, node1, node2, node3 and 96 more nodes: no disk",)


def test_a_clock_that_is_behind_is_a_warning() -> None:
    found = nodes(3)
    found[2] = replace(found[2], time_s=970.0)
    assert judge(found, ranks(3), [VERSIONS] * 6, way="10.0.0.1").report.warnings == (
        "clocks of nodes differ: node2 is 30 s behind node0; tell the site",
    )
