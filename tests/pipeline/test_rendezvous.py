"""The first rank listens on one address, which the others reach, and nowhere else."""

import socket
from pathlib import Path

import pytest

from pipeline import rendezvous
from pipeline.rendezvous import choose_interface, join, no_way, open_door
from tests.pipeline.sites import site


@pytest.mark.parametrize(
    ("nodes", "interface", "name", "expected"),
    [
        (1, None, "127.0.1.1", "127.0.0.1"),
        (1, "nosuch", "127.0.1.1", "127.0.0.1"),  # of one node nobody else has to reach it
        (2, "lo", "127.0.0.2", "127.0.0.1"),
        (2, None, "127.0.0.2", "127.0.0.2"),  # what the node's name leads to, as gloo's own sockets
    ],
)
def test_the_store_listens_on_one_address_and_nowhere_beyond(
    nodes: int,
    interface: str | None,
    name: str,
    expected: str,
    resolving: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolving["node7"] = name
    monkeypatch.setattr(rendezvous, "is_loopback", lambda address: address == "127.0.1.1")  # all that this machine has
    door, store = open_door(site(interface=interface), nodes)
    assert store is not None
    assert door.address == expected
    store.set("key", "value")
    assert no_way(door) == ""
    assert join(door).get("key") == b"value"
    rows = [line.split() for path in ("tcp", "tcp6") for line in Path(f"/proc/net/{path}").read_text().splitlines()]
    heard = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{door.port:04X}")]
    little_endian = socket.inet_aton(expected)[::-1].hex().upper()  # as proc(5) shows an address
    assert heard == [f"{little_endian}:{door.port:04X}"]


def test_a_node_whose_name_leads_elsewhere_does_not_listen_everywhere(resolving: dict[str, str]) -> None:
    assert open_door(site(), 2)[0].fault == "the first rank's node has no name with an address to listen on"
    resolving["node7"] = "192.0.2.77"  # RFC 5737: nobody's
    door, store = open_door(site(), 2)
    assert store is None
    assert door.fault.startswith("the first rank cannot listen on 192.0.2.77: ")
    assert door.fault.endswith("; set site.interface to one of its own")


def test_sockets_between_nodes_take_the_interface_of_the_name_that_has_an_address(resolving: dict[str, str]) -> None:
    assert choose_interface(site(), 1) == "lo"
    assert choose_interface(site(interface="ib0"), 2) == "ib0"
    resolving["node7"] = "192.0.2.7"
    assert choose_interface(site(), 2) == ""  # torch finds it by itself
    assert open_door(site(interface="nosuch"), 2)[0].fault == "nosuch has no address to listen on"
