"""What carries messages between workers: the backend, what it runs on and by which interface. For the log."""

import fcntl
import os
import re
import socket
import struct
from pathlib import Path

SIOCGIFADDR = 0x8915

INFINIBAND = Path("/sys/class/infiniband")
"""Where Linux lists InfiniBand cards."""


def transport(backend: str, nccl_log: str = "") -> str:
    """In words, as `gloo, TCP sockets on eth0`.

    nccl_log: what NCCL wrote with NCCL_DEBUG=INFO, which alone knows what it chose.
    """
    if backend == "gloo":
        return f"gloo, TCP sockets on {gloo_interface()}"
    return f"nccl, {nccl_choice(nccl_log)}"


def gloo_interface() -> str:
    """The interface that gloo uses: GLOO_SOCKET_IFNAME's, else the one that has the host name's address."""
    named = os.environ.get("GLOO_SOCKET_IFNAME")
    if named:
        return named
    try:
        wanted = socket.gethostbyname(socket.gethostname())
    except OSError:
        return f"an unknown interface ({socket.gethostname()} has no address)"
    found = [name for _, name in socket.if_nameindex() if address(name) == wanted]
    return found[0] if found else f"the interface with {wanted}"


def address(interface: str) -> str | None:
    """The IPv4 address of an interface; None where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:15])
        try:
            return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)[20:24])
        except OSError:
            return None


def nccl_choice(log: str) -> str:
    """NCCL's network by its own log: `IB on mlx5_0:1/IB`, `Socket on eth0:10.0.0.1<0>`, or that it did not say."""
    network = re.search(r"NCCL INFO Using network (\S+)", log)
    used = re.search(r"NCCL INFO NET/\S+ : Using (.*)", log)
    cards = re.findall(r"\[\d+\](\S+)", used.group(1)) if used else []
    if network is None and not cards:
        present = sorted(card.name for card in INFINIBAND.glob("*"))
        return f"transport not logged; InfiniBand cards: {', '.join(present) or 'none'}"
    return f"{network.group(1) if network else 'network'}{' on ' + ', '.join(cards) if cards else ''}"
