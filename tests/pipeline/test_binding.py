"""Ranks are bound to the CPUs near their GPUs, within what the scheduler allowed, or left as they are with a word."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.binding import Binding, bind, choose, listed

ABCI = {"0000:15:00.0": 0, "0000:3d:00.0": 0, "0000:b1:00.0": 1, "0000:d8:00.0": 1}
"""The GPUs of ABCI's V node by PCI address, with their NUMA domains: two sockets of 20 cores."""

CORES = 20
ALL = frozenset(range(2 * CORES))


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """/proc and /sys of such a node, hyper-threading off."""
    for domain in (0, 1):
        write(tmp_path / f"sys/devices/system/node/node{domain}/cpulist", cpus(domain))
    write(tmp_path / "sys/devices/system/node/possible", "0-1")
    for cpu in ALL:
        write(tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", str(cpu))
    for number, (address, domain) in enumerate(ABCI.items()):
        write(
            tmp_path / f"proc/driver/nvidia/gpus/{address}/information", f"Model: V100\nGPU UUID: \t GPU-{number}abc\n"
        )
        write(tmp_path / f"sys/bus/pci/devices/{address}/local_cpulist", cpus(domain))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def cpus(domain: int) -> str:
    return f"{domain * CORES}-{domain * CORES + CORES - 1}"


def under_mpirun(rank: int, size: int = 4) -> dict[str, str]:
    return {"OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": str(size), "SLURM_LOCALID": "0"}


def bound(node: Path, how: str, device: str, environment: Mapping[str, str], allowed: frozenset[int] = ALL) -> str:
    """The CPUs, as Linux writes them; empty where the rank stays as it is."""
    return listed(choose(how, device, environment, allowed, root=node).cpus or ())


def test_by_numa_domain_a_rank_gets_all_cpus_near_its_gpu(node: Path) -> None:
    found = [bound(node, "numa", "cuda", under_mpirun(rank)) for rank in range(4)]
    assert found == ["0-19", "0-19", "20-39", "20-39"]


def test_by_core_the_ranks_of_a_domain_share_it_equally(node: Path) -> None:
    found = [bound(node, "core", "cuda", under_mpirun(rank)) for rank in range(4)]
    assert found == ["0-9", "10-19", "20-29", "30-39"]


@pytest.mark.parametrize("visible", ["3,0", "GPU-3abc,GPU-0abc"])
def test_the_gpus_that_cuda_shows_count_in_its_order(node: Path, visible: str) -> None:
    found = [bound(node, "core", "cuda", under_mpirun(rank, 2) | {"CUDA_VISIBLE_DEVICES": visible}) for rank in (0, 1)]
    assert found == ["20-39", "0-19"]


def test_nothing_beyond_what_the_scheduler_allowed_is_taken(node: Path) -> None:
    allowed = frozenset([0, 1, 2, 3, 25])
    assert bound(node, "numa", "cuda", under_mpirun(0), allowed) == "0-3"
    assert bound(node, "core", "cuda", under_mpirun(1), allowed) == "2-3"
    assert bound(node, "numa", "cuda", under_mpirun(2), allowed) == "25"
    assert bound(node, "numa", "cuda", under_mpirun(2), frozenset([0])) == ""
    assert bound(node, "core", "cpu", under_mpirun(1, 2), allowed) == "2-3,25"


def test_without_gpus_ranks_spread_evenly_over_domains(node: Path) -> None:
    assert [bound(node, "numa", "cpu", under_mpirun(rank)) for rank in range(4)] == ["0-19", "0-19", "20-39", "20-39"]
    assert bound(node, "numa", "cpu", under_mpirun(1, 2)) == "20-39"
    assert [bound(node, "core", "cpu", under_mpirun(rank, 8)) for rank in (0, 7)] == ["0-4", "35-39"]


def test_threads_of_one_core_stay_together(node: Path) -> None:
    for cpu in range(CORES):  # CPU n + 20 is the second thread of core n
        for one in (cpu, cpu + CORES):
            path = node / f"sys/devices/system/cpu/cpu{one}/topology/thread_siblings_list"
            write(path, f"{cpu},{cpu + CORES}")
    for domain, span in enumerate(["0-9,20-29", "10-19,30-39"]):
        write(node / f"sys/devices/system/node/node{domain}/cpulist", span)
    assert [bound(node, "core", "cpu", under_mpirun(rank)) for rank in (0, 1)] == ["0-4,20-24", "5-9,25-29"]


def test_more_ranks_than_cores_share_them(node: Path) -> None:
    binding = choose("core", "cpu", under_mpirun(3), frozenset([0, 1]), root=node)
    assert binding == Binding(frozenset([0, 1]), "of this node's, shared by 4 ranks: there are 2 cores")


def test_under_srun_slurms_words_count(node: Path) -> None:
    assert bound(node, "core", "cuda", {"SLURM_LOCALID": "3", "SLURM_TASKS_PER_NODE": "4(x2)"}) == "30-39"


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({}, "the launcher does not say"),
        (under_mpirun(0, 8), "4 GPUs of 8 ranks"),
        (under_mpirun(0) | {"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2"}, "0 GPUs of 4 ranks"),
    ],
)
def test_what_cannot_be_found_out_leaves_a_rank_as_it_is(node: Path, environment: dict[str, str], why: str) -> None:
    binding = choose("numa", "cuda", environment, ALL, root=node)
    assert str(binding).startswith(f"not bound to CPUs: {why}")


def test_a_machine_that_tells_nothing_leaves_a_rank_as_it_is(tmp_path: Path) -> None:
    assert choose("numa", "cpu", under_mpirun(0), ALL, root=tmp_path).cpus is None
    assert bound(tmp_path, "core", "cpu", under_mpirun(1)) == "10-19"  # shares need no knowledge


def test_none_leaves_a_rank_alone(node: Path) -> None:
    assert choose("none", "cuda", under_mpirun(0), ALL, root=node) == Binding(None, "site.binding=none")


def test_the_process_runs_where_it_was_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 5})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: taken.append(cpus))
    assert str(bind("core", "cpu", under_mpirun(1, 2))) == "bound to CPUs 5: share 1 of 2 of this node's"
    assert taken == [frozenset([5])]
