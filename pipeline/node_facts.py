"""What a node finds out about itself before update 0, by its first worker. Torch-free, but for the names of GPUs."""

import ctypes
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline import transport
from pipeline.config.site import SiteConfig
from pipeline.rendezvous import Door, interfaces, names, no_way, own_address, resolve
from pipeline.transport import address
from pipeline.wording import counted

NVIDIA = Path("/proc/driver/nvidia")
VERBS = "libibverbs.so.1"
"""What NCCL opens for InfiniBand; where an image lacks it, NCCL takes sockets without a word."""


@dataclass(frozen=True)
class Question:
    """What a node is asked."""

    site: SiteConfig
    nodes: int
    workers_here: int
    door: Door
    attempt: Path | None
    """The attempt's folder, in the run folder that all nodes see; None: there is none."""


@dataclass(frozen=True)
class Facts:
    """What one node found."""

    host: str
    time_s: float
    """Its clock, seconds since 1970."""
    gpus: tuple[str, ...]
    driver: str
    faults: tuple[str, ...]
    """What ends the run, without the node's name."""
    warnings: tuple[str, ...]


def look(question: Question, environment: Mapping[str, str]) -> Facts:
    """Find out; never raises."""
    now_s = time.time()  # first: all nodes come from a collective, and what follows takes its time
    site, several = question.site, question.nodes > 1
    faults = [*_interface(site, several)]
    if question.door.address and (why := no_way(question.door)):
        faults.append(f"cannot reach the first rank's node: {why}; set site.interface or site.host_suffix")
    cuda = site.device == "cuda"
    found = gpus() if cuda else ()
    if cuda and len(found) < question.workers_here:
        faults.append(
            f"{counted(len(found), 'GPU')} for {counted(question.workers_here, 'worker')}; one worker needs one GPU"
        )
    if several and site.require_ib:
        faults += _infiniband(site, environment)
    faults += _folder(question.attempt)
    warnings = _local_storage(site, environment)
    driver = nvidia_driver() if cuda else ""
    return Facts(socket.gethostname(), now_s, found, driver, tuple(faults), tuple(warnings))


def gpus() -> tuple[str, ...]:
    """The names of the GPUs that workers of this node can have, in CUDA's order."""
    import torch

    return tuple(torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count()))


def nvidia_driver() -> str:
    """The driver's version; empty where it does not tell."""
    try:
        found = re.search(r"NVRM version:.*?\s(\d+\.\d[\d.]*)\s", (NVIDIA / "version").read_text())
    except OSError:
        return ""
    return found[1] if found else ""


def _interface(site: SiteConfig, several: bool) -> Iterator[str]:
    """Faults of what others would reach this node by."""
    if site.interface is not None and site.interface not in interfaces():
        yield f"has no network interface {site.interface}; it has {', '.join(interfaces())}"
    elif site.interface is not None and address(site.interface) is None:
        yield f"network interface {site.interface} has no IPv4 address; set site.interface to one that has"
    elif several and site.interface is None and not own_address(site.host_suffix):
        tried = ", ".join(f"{name} is {resolve(name) or 'unknown'}" for name in names(site.host_suffix))
        yield (
            f"its own name leads no other node to it ({tried}); set site.interface to the network between nodes, or "
            "site.host_suffix"
        )


def _infiniband(site: SiteConfig, environment: Mapping[str, str]) -> Iterator[str]:
    """Faults by which messages between nodes would go by sockets, although site.require_ib=true."""
    mend = "site.require_ib=false would run by sockets"
    present = sorted(card.name for card in transport.INFINIBAND.glob("*"))
    absent = [card for card in site.cards if card not in present]
    if site.backend != "nccl":
        yield f"site.require_ib=true, and {site.backend} talks by sockets; {mend}"
    elif environment.get("NCCL_IB_DISABLE", "0") not in ("", "0"):
        yield f"site.require_ib=true, and NCCL_IB_DISABLE={environment['NCCL_IB_DISABLE']} is set; {mend}"
    elif not present:
        yield f"site.require_ib=true, and {transport.INFINIBAND} lists no card; {mend}"
    elif absent:
        yield f"site.cards names {', '.join(absent)}, and there are {', '.join(present)}; set site.cards to these"
    elif not _opens(VERBS):
        yield f"site.require_ib=true, and {VERBS} cannot be opened; install rdma-core in the image; {mend}"


def _opens(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _folder(attempt: Path | None) -> Iterator[str]:
    """Faults of the run folder as this node sees it."""
    if attempt is None:
        return
    path = attempt / f".written-by-{socket.gethostname()}-{os.getpid()}"
    try:
        path.touch()
        path.unlink()
    except OSError as error:
        yield f"cannot write in the run folder {attempt}: {error.strerror}; run.dir= must name one that all nodes see"


def _local_storage(site: SiteConfig, environment: Mapping[str, str]) -> Iterator[str]:
    """What is to be told of the node's own disk: nothing of a run depends on it."""
    name = site.local_storage
    if name is None:
        return
    value = environment.get(name, "")
    if not value:
        yield f"{name} (site.local_storage) has no value, so the node's own disk is unknown"
    elif not Path(value).is_dir():
        yield f"{name}={value} (site.local_storage) is no folder, so the node's own disk is not to be had"
