"""Where ranks meet before they know each other: addresses of the first rank's node, and the store that listens there.

With site.interface the store listens on that interface's address and nowhere beyond; between the ranks of one node on
loopback. Otherwise other nodes try the names of the first rank's node, then its address, and take the first that
answers. IPv4. Torch-free, but for the store itself.
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

LOOPBACK = "127.0.0.1"
CONNECT_S = 10.0
STORE_S = 120.0

BACKLOG = 4096
"""Connections that may wait: every rank of a large job comes at once."""


@dataclass(frozen=True)
class Door:
    """Where the first rank listens, as the others are told."""

    addresses: tuple[str, ...]
    """Names and addresses to try, in order; none where it cannot listen."""
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
    if site.interface or nodes == 1:
        return site.interface or "lo"  # loopback needs no resolvable host name
    bare = resolve(socket.gethostname())
    if bare and not is_loopback(bare):
        return ""
    wanted = own_address(site.host_suffix)
    return next((name for _, name in socket.if_nameindex() if wanted and address(name) == wanted), "")


def open_door(site: SiteConfig, nodes: int) -> tuple[Door, "dist.TCPStore | None"]:
    """Start the store of all ranks on this node, on a port that the kernel picks; None where it cannot listen.

    It answers at once: a queue of callers that nobody takes would be full at some kernels' 128.
    """
    interface = choose_interface(site, nodes)
    only = site.interface is not None or nodes == 1
    at = (address(interface) or "") if interface else own_address(site.host_suffix)
    if only and not at:
        return Door((), 0, f"{interface} has no address to listen on"), None
    try:
        listening = socket.create_server((at if only else "", 0), backlog=BACKLOG)
    except OSError as error:
        return Door((), 0, f"the first rank cannot listen on {at or 'any address'}: {error.strerror or error}"), None
    addresses = (at,) if only else (*names(site.host_suffix), *([at] if at else []))
    door = Door(addresses, listening.getsockname()[1])
    return door, _store(at if only else LOOPBACK, door, listening)


def find_way(door: Door) -> tuple[str, str]:
    """The first of a door's addresses at which it answers, and what became of each that was tried before."""
    tried = []
    for name in door.addresses:
        found = resolve(name)
        if not found:
            tried.append(f"{name} has no address here")
            continue
        if is_loopback(found) and found != name:
            tried.append(f"{name} is {found} here")
            continue
        try:
            socket.create_connection((found, door.port), timeout=CONNECT_S).close()
            return found, ", ".join(tried)
        except OSError as error:
            tried.append(f"{name} ({found}) does not answer at port {door.port}: {error.strerror or error}")
    return "", ", ".join(tried)


def join(at: str, door: Door) -> "dist.TCPStore":
    """The store behind a door, for every rank but the first. at: the address that answered."""
    return _store(at, door, None)


def interfaces() -> Sequence[str]:
    """The names of this node's network interfaces."""
    return [name for _, name in socket.if_nameindex()]


def _store(at: str, door: Door, listening: socket.socket | None) -> "dist.TCPStore":
    import torch.distributed as dist

    timeout = timedelta(seconds=STORE_S)
    if listening is None:
        return dist.TCPStore(at, door.port, is_master=False, timeout=timeout)
    return dist.TCPStore(
        at, door.port, is_master=True, wait_for_workers=False, timeout=timeout, master_listen_fd=listening.detach()
    )
