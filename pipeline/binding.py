"""Binds a rank to CPUs near its GPU, or to its share of a node's: site.binding.

    none  wherever the kernel puts it
    numa  the CPUs of its GPU's NUMA domain; without GPUs those of the domain that its local rank falls in
    core  its own share of these, whole cores, disjoint from those of the other ranks

Only the CPUs that the scheduler allowed are taken. Where something cannot be found out, the rank stays as it is and
says so: slow is better than wrong. Called before torch is imported, whose threads inherit what they start with.
Torch-free.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LOCAL_RANK = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
LOCAL_SIZE = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
"""What launchers call a rank's place on its node and the number of ranks there; mpirun's own words come first."""

GPUS = "proc/driver/nvidia/gpus"
"""A folder a GPU, named by its PCI address: in their order GPUs are numbered where CUDA_DEVICE_ORDER=PCI_BUS_ID."""

Cpus = frozenset[int]


@dataclass(frozen=True)
class Binding:
    """What became of a rank."""

    cpus: Cpus | None
    """None: it is not bound."""
    why: str

    def __str__(self) -> str:
        return (
            f"not bound to CPUs: {self.why}" if self.cpus is None else f"bound to CPUs {listed(self.cpus)}: {self.why}"
        )


def bind(how: str, device: str, environment: Mapping[str, str]) -> Binding:
    """Bind this process as site.binding says; returns what was done. device: site.device."""
    binding = choose(how, device, environment, frozenset(os.sched_getaffinity(0)))
    if binding.cpus is not None:
        try:
            os.sched_setaffinity(0, binding.cpus)
        except OSError as error:
            return Binding(None, f"the kernel refuses CPUs {listed(binding.cpus)} ({error.strerror})")
    return binding


def choose(how: str, device: str, environment: Mapping[str, str], allowed: Cpus, *, root: Path = Path("/")) -> Binding:
    """The CPUs for this rank. allowed: those that the scheduler granted. root: where proc/ and sys/ are."""
    if how == "none":
        return Binding(None, "site.binding=none")
    rank, size = _number(environment, LOCAL_RANK), _number(environment, LOCAL_SIZE)
    if rank is None or size is None or rank >= size:
        return Binding(None, "the launcher does not say which of a node's ranks this is")
    if device == "cuda":
        return _near_gpu(how, rank, size, environment, allowed, root)
    return _share_of_node(how, rank, size, allowed, root)


def _near_gpu(how: str, rank: int, size: int, environment: Mapping[str, str], allowed: Cpus, root: Path) -> Binding:
    addresses = gpus(environment, root)
    if len(addresses) < size:
        found = f"{len(addresses)} GPUs of {size} ranks can be found in /{GPUS}"
        return Binding(None, f"{found} by CUDA_VISIBLE_DEVICES={environment.get('CUDA_VISIBLE_DEVICES', '')}")
    near = [
        _cpus_of(root / "sys/bus/pci/devices" / address / "local_cpulist") & allowed for address in addresses[:size]
    ]
    if not near[rank]:
        return Binding(None, f"no CPU that this job may use is near GPU {rank} at {addresses[rank]}")
    where = f"near GPU {rank} at {addresses[rank]}"
    if how == "numa":
        return Binding(near[rank], where)
    together = [other for other in range(size) if near[other] == near[rank]]
    return _share(near[rank], together.index(rank), len(together), where, root)


def _share_of_node(how: str, rank: int, size: int, allowed: Cpus, root: Path) -> Binding:
    domains = [domain & allowed for domain in numa_domains(root) if domain & allowed]
    if how == "core":
        return _share(allowed, rank, size, "of this node's", root, order=domains)
    if not domains:
        return Binding(None, "this node does not tell its NUMA domains")
    number = rank * len(domains) // size
    return Binding(domains[number], f"domain {number} of {len(domains)} that the job may use")


def _share(cpus: Cpus, place: int, ranks: int, where: str, root: Path, *, order: Sequence[Cpus] = ()) -> Binding:
    """Whole cores, as many as the others get; all of `cpus` where there are fewer cores than ranks.

    order: domains, which a share crosses only where it must.
    """
    cores = [core for domain in (*order, cpus.difference(*order)) for core in whole_cores(domain, root)]
    mine = cores[place * len(cores) // ranks : (place + 1) * len(cores) // ranks]
    if len(cores) < ranks:
        return Binding(cpus, f"{where}, shared by {ranks} ranks: there are {len(cores)} cores")
    return Binding(frozenset().union(*mine), f"share {place} of {ranks} {where}")


def gpus(environment: Mapping[str, str], root: Path) -> list[str]:
    """PCI addresses of the GPUs that CUDA shows this process, in its order; empty where that cannot be found out."""
    found = sorted(path.name for path in (root / GPUS).glob("*"))
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    chosen = []
    for word in filter(None, map(str.strip, visible.split(","))):
        address = found[int(word)] if word.isdigit() and int(word) < len(found) else _by_uuid(word, found, root)
        if address is None:
            return []
        chosen.append(address)
    return chosen


def numa_domains(root: Path) -> list[Cpus]:
    """The CPUs of each NUMA domain, by its number."""
    paths = [path for path in (root / "sys/devices/system/node").glob("node*") if path.name[4:].isdigit()]
    return [_cpus_of(path / "cpulist") for path in sorted(paths, key=lambda path: int(path.name[4:]))]


def whole_cores(cpus: Collection[int], root: Path) -> list[Cpus]:
    """`cpus` by cores: hardware threads of one core stay together."""
    topology = root / "sys/devices/system/cpu"
    found: dict[int, set[int]] = {}
    for cpu in sorted(cpus):
        siblings = _cpus_of(topology / f"cpu{cpu}/topology/thread_siblings_list") or {cpu}
        found.setdefault(min(siblings), set()).add(cpu)
    return [frozenset(found[first]) for first in sorted(found)]


def listed(cpus: Collection[int]) -> str:
    """As Linux writes them: 0-3,8."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], cpu]
        else:
            spans.append([cpu, cpu])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)


def _cpus_of(path: Path) -> Cpus:
    """The CPUs that a file lists as 0-3,8; none where there is no such file."""
    try:
        text = path.read_text()
    except OSError:
        return frozenset()
    spans = re.findall(r"(\d+)(?:-(\d+))?", text)
    return frozenset(cpu for first, last in spans for cpu in range(int(first), int(last or first) + 1))


def _by_uuid(word: str, addresses: Sequence[str], root: Path) -> str | None:
    """The GPU whose UUID begins like that, as CUDA takes it."""
    for address in addresses:
        try:
            text = (root / GPUS / address / "information").read_text()
        except OSError:
            continue
        if word.startswith("GPU-") and re.search(rf"GPU UUID:\s*{re.escape(word)}", text):
            return address
    return None


def _number(environment: Mapping[str, str], names: Sequence[str]) -> int | None:
    """The first of the variables that begins with a number: SLURM writes `8(x2)` for 8 on each of two nodes."""
    for name in names:
        found = re.match(r"\d+", environment.get(name, ""))
        if found:
            return int(found[0])
    return None
