"""The first rank listens where the site says and nowhere else, and is found by the first name that leads to it."""

from pathlib import Path

import pytest

from pipeline.rendezvous import choose_interface, find_way, join, open_door
from tests.pipeline.sites import site


@pytest.mark.parametrize(("nodes", "interface", "expected"), [(1, None, "0100007F"), (2, "lo", "0100007F")])
def test_nothing_listens_beyond_the_interface(nodes: int, interface: str | None, expected: str) -> None:
    door, store = open_door(site(interface=interface), nodes)
    assert store is not None
    store.set("key", "value")
    assert join(find_way(door)[0], door).get("key") == b"value"
    rows = [line.split() for path in ("tcp", "tcp6") for line in Path(f"/proc/net/{path}").read_text().splitlines()]
    heard = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{door.port:04X}")]
    assert heard == [f"{expected}:{door.port:04X}"]


def test_sockets_between_nodes_take_the_interface_of_the_name_that_has_an_address(resolving: dict[str, str]) -> None:
    assert choose_interface(site(), 1) == "lo"
    assert choose_interface(site(interface="ib0"), 2) == "ib0"
    resolving["node7"] = "192.0.2.7"
    assert choose_interface(site(), 2) == ""  # torch finds it by itself
    assert open_door(site(interface="nosuch"), 2)[0].fault == "nosuch has no address to listen on"
