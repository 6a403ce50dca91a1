"""What carries messages, in words: NCCL's choice by its own log, gloo's interface by environment and host name."""

import socket
from pathlib import Path

import pytest

from pipeline import transport
from pipeline.transport import address, gloo_interface, nccl_choice

INFINIBAND = (
    "host:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.0.0.1<0>\n"
    "host:1:1 [0] NCCL INFO Using network IB\n"
)
SOCKETS = (
    "host:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0> [1]ib0:10.1.0.1<0>\n"
    "host:1:1 [0] NCCL INFO Using network Socket\n"
)


def test_nccls_infiniband_cards_are_named() -> None:
    assert nccl_choice(INFINIBAND) == "IB on mlx5_0:1/IB, mlx5_1:1/IB"
    assert transport.transport("nccl", INFINIBAND) == "nccl, IB on mlx5_0:1/IB, mlx5_1:1/IB"


def test_nccls_sockets_are_named_so_that_nobody_takes_them_for_infiniband() -> None:
    assert nccl_choice(SOCKETS) == "Socket on eth0:10.0.0.1<0>, ib0:10.1.0.1<0>"


def test_either_line_alone_is_said() -> None:
    cards, network = INFINIBAND.splitlines()
    assert nccl_choice(network) == "IB"
    assert nccl_choice(cards) == "network on mlx5_0:1/IB, mlx5_1:1/IB"


def test_without_a_log_the_cards_that_are_there_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(transport, "INFINIBAND", tmp_path / "absent")
    assert nccl_choice("") == "transport not logged; InfiniBand cards: none"
    for card in ("mlx5_1", "mlx5_0"):
        (tmp_path / card).mkdir()
    monkeypatch.setattr(transport, "INFINIBAND", tmp_path)
    assert nccl_choice("") == "transport not logged; InfiniBand cards: mlx5_0, mlx5_1"


def test_gloos_interface_is_the_one_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    assert transport.transport("gloo") == "gloo, TCP sockets on ib0"


def test_else_it_is_the_one_with_the_host_names_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    monkeypatch.setattr(socket, "gethostbyname", {"node7": "127.0.0.1"}.__getitem__)
    assert gloo_interface() == "lo"
    monkeypatch.setattr(socket, "gethostbyname", {"node7": "192.0.2.1"}.__getitem__)  # RFC 5737: nobody's
    assert gloo_interface() == "the interface with 192.0.2.1"


def test_a_host_name_without_an_address_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: str) -> str:
        raise socket.gaierror

    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    monkeypatch.setattr(socket, "gethostbyname", unknown)
    assert gloo_interface() == "an unknown interface (node7 has no address)"


def test_loopback_has_its_address_and_an_unknown_interface_none() -> None:
    assert address("lo") == "127.0.0.1"
    assert address("no-such-0") is None
