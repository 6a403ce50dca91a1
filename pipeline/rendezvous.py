"""Where ranks meet before they know each other: addresses of the first rank's node, and the store that listens there.

The store listens on one address and nowhere beyond: site.interface's; between the ranks of one node loopback; otherwise
the one that the name of the first rank's node leads to, as gloo's own sockets do. IPv4. Torch-free, but for the store
itself.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pipeline.config.site import SiteConfig
from pipeline.transport import address

if TYPE_CHECKING:
    import torch.distributed as dist

LOOPBACK = "lo"
CONNECT_S = 10.0
STORE_S = 120.0

BACKLOG = 4096
"""Connections that may wait: every rank of a large job comes at once."""


@dataclass(frozen=True)
class Door:
    """Where the first rank listens, as the others are told."""

    address: str
    """Empty where it cannot listen."""
    port: int
    fault: str = ""
    """Why it cannot listen."""


def names(host_suffix: str) -> tuple[str, ...]:
    """What this node may be called by others, each once: with the site's suffix, as it is, by its full name."""
    host = socket.gethostname()
    with_suffix = host if host.endswith(host_suffix) else host + host_suffix
    return tuple(dict.fromkeys((with_suffix, host, socket.getfqdn())))


def resolve(name: str) -> str:
    """The IPv4 address of a name; empty where it has none."""
    try:
        return socket.gethostbyname(name)
    except (OSError, UnicodeError):
        return ""


def is_loopback(address: str) -> bool:
    return address.startswith("127.")


def own_address(host_suffix: str) -> str:
    """This node's address by the first of its names that has one for others; empty where none has."""
    found = (resolve(name) for name in names(host_suffix))
    return next((one for one in found if one and not is_loopback(one)), "")


def choose_interface(site: SiteConfig, nodes: int) -> str:
    """The interface for sockets between ranks; empty where torch finds it by the host's bare name."""
    if nodes == 1:
        return LOOPBACK  # which needs no resolvable host name, and nobody else reaches
    if site.interface:
        return site.interface
    bare = resolve(socket.gethostname())
    if bare and not is_loopback(bare):
        return ""
    wanted = own_address(site.host_suffix)
    return next((name for _, name in socket.if_nameindex() if wanted and address(name) == wanted), "")


def open_door(site: SiteConfig, nodes: int) -> tuple[Door, "dist.TCPStore | None"]:
    """Start the store of all ranks on this node, on a port that the kernel picks; None where it cannot listen.

    It answers at once: a queue of callers that nobody takes would be full at some kernels' 128.
    """
    interface = LOOPBACK if nodes == 1 else site.interface
    at = (address(interface) or "") if interface else own_address(site.host_suffix)
    if not at:
        where = f"{interface} has no address" if interface else "the first rank's node has no name with an address"
        return Door("", 0, f"{where} to listen on"), None
    try:
        listening = socket.create_server((at, 0), backlog=BACKLOG)
    except OSError as error:
        why = error.strerror or error
        return Door("", 0, f"the first rank cannot listen on {at}: {why}; set site.interface to one of its own"), None
    door = Door(at, listening.getsockname()[1])
    return door, _store(door, listening)


def no_way(door: Door) -> str:
    """Why a door does not answer; empty where it does."""
    try:
        socket.create_connection((door.address, door.port), timeout=CONNECT_S).close()
    except OSError as error:
        return f"{door.address} does not answer at port {door.port}: {error.strerror or error}"
    return ""


def join(door: Door) -> "dist.TCPStore":
    """The store behind a door, for every rank but the first."""
    return _store(door, None)


def interfaces() -> Sequence[str]:
    """The names of this node's network interfaces."""
    return [name for _, name in socket.if_nameindex()]


def _store(door: Door, listening: socket.socket | None) -> "dist.TCPStore":
    import torch.distributed as dist

    timeout = timedelta(seconds=STORE_S)
    if listening is None:
        return dist.TCPStore(door.address, door.port, is_master=False, timeout=timeout)
    return dist.TCPStore(
        door.address,
        door.port,
        is_master=True,
        wait_for_workers=False,
        timeout=timeout,
        master_listen_fd=listening.detach(),
    )
