"""What a node finds out about itself is told in a line each, with what would be right."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline import node_facts, transport
from pipeline.config.site import SiteConfig
from pipeline.node_facts import Question, look
from pipeline.rendezvous import Door
from tests.pipeline.sites import site


def faults(
    site: SiteConfig, *, nodes: int = 2, attempt: Path | None = None, environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Of a node whose way to the first rank is not looked for."""
    return look(Question(site, nodes, 4, Door("", 0), attempt), environment or {}).faults


def test_a_name_that_leads_nobody_here_is_told_with_all_that_were_tried(resolving: dict[str, str]) -> None:
    resolving["node7"] = "127.0.1.1"
    (fault,) = faults(site(host_suffix=".ib"))
    assert "(node7.ib is unknown, node7 is 127.0.1.1, node7.example is unknown)" in fault
    assert faults(site(host_suffix=".ib"), nodes=1) == ()
    resolving["node7.ib"] = "192.0.2.7"
    assert faults(site(host_suffix=".ib")) == ()


def test_an_interface_that_is_not_there_is_told_with_those_that_are() -> None:
    assert faults(site(interface="lo")) == ()
    (fault,) = faults(site(interface="nosuch"))
    assert fault.startswith("has no network interface nosuch; it has ")
    assert "lo" in fault


INFINIBAND: list[tuple[dict[str, Any], dict[str, str], str]] = [
    ({"backend": "gloo"}, {}, "gloo talks by sockets"),
    ({}, {"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE=1 is set"),
    ({"cards": ["mlx5_0", "mlx5_2"]}, {}, "site.cards names mlx5_2, and there are mlx5_0, mlx5_1"),
    ({"cards": ["mlx5_0"]}, {}, ""),
]


@pytest.mark.parametrize(("values", "environment", "expected"), INFINIBAND)
def test_sockets_where_infiniband_is_required_are_refused(
    values: dict[str, Any], environment: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for card in ("mlx5_0", "mlx5_1"):
        (tmp_path / card).mkdir()
    monkeypatch.setattr(transport, "INFINIBAND", tmp_path)
    monkeypatch.setattr(node_facts, "VERBS", "libc.so.6")
    asked = site(**{"interface": "lo", "require_ib": True, "backend": "nccl", **values})
    assert expected in " ".join(faults(asked, environment=environment))
    assert faults(asked, nodes=1, environment=environment) == ()
    if not expected:
        assert faults(asked) == ()
        monkeypatch.setattr(node_facts, "VERBS", "no-such.so")
        assert "no-such.so cannot be opened" in faults(asked)[0]
        monkeypatch.setattr(transport, "INFINIBAND", tmp_path / "absent")
        assert "lists no card" in faults(asked)[0]


def test_too_few_gpus_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_facts, "gpus", lambda: ("NVIDIA H200",) * 3)
    assert faults(site(interface="lo", device="cuda")) == ("3 GPUs for 4 workers; one worker needs one GPU",)


def test_the_drivers_version_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_facts, "NVIDIA", tmp_path)
    assert node_facts.nvidia_driver() == ""
    closed = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: 12\n"
    )
    (tmp_path / "version").write_text(closed)
    assert node_facts.nvidia_driver() == "535.104.05"
    opened = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (root@a)\n"
    (tmp_path / "version").write_text(opened)
    assert node_facts.nvidia_driver() == "570.124.06"


def test_a_run_folder_that_this_node_cannot_write_is_told(tmp_path: Path) -> None:
    assert faults(site(interface="lo"), attempt=tmp_path) == ()
    assert list(tmp_path.iterdir()) == []
    (fault,) = faults(site(interface="lo"), attempt=tmp_path / "absent")
    assert fault.startswith(f"cannot write in the run folder {tmp_path}/absent: No such file")


def test_a_local_disk_that_the_site_promised_is_a_warning_where_it_is_not(tmp_path: Path) -> None:
    question = Question(site(interface="lo", local_storage="JOBDIR"), 2, 4, Door("", 0), None)
    assert look(question, {"JOBDIR": str(tmp_path)}).warnings == ()
    assert "JOBDIR (site.local_storage) has no value" in look(question, {}).warnings[0]
    assert "is no folder" in look(question, {"JOBDIR": str(tmp_path / "absent")}).warnings[0]


def test_a_node_that_does_not_reach_the_first_rank_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        door = Door("127.0.0.1", server.getsockname()[1])
        assert look(Question(site(interface="lo"), 1, 4, door, None), {}).faults == ()
    (fault,) = look(Question(site(interface="lo"), 1, 4, door, None), {}).faults
    assert fault.startswith("cannot reach the first rank's node: 127.0.0.1 does not answer at port")
    assert fault.endswith("; set site.interface or site.host_suffix")
