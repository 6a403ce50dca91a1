"""Compares the job's nodes before update 0, by one worker of each, and ends all ranks alike where something is wrong.

Three small collectives in all, whatever the number of ranks: the first rank tells where it listens, the nodes' first
workers hand in what they found, the first rank tells its verdict. Every rank raises the same UserError, so none waits
for one that has gone.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.site import SiteConfig
from pipeline.errors import UserError
from pipeline.node_facts import Facts, Question, look
from pipeline.rendezvous import Door, choose_interface, join, open_door
from pipeline.wording import counted

if TYPE_CHECKING:
    import torch.distributed as dist

CLOCK_S = 5.0
"""Clocks that differ by more are told: files of a shared file system would seem to come from the future."""

SHOWN = 4
"""Nodes that a line names."""

ONE_PYTHON = "start all ranks from one image or one Python"
ALIKE = "take nodes that are alike, by site.queue or site.extra_directives"


@dataclass(frozen=True)
class Report:
    """What the first rank found, for the log and the run folder."""

    lines: tuple[str, ...]
    """One a check."""
    warnings: tuple[str, ...]
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What is wrong, and the report."""

    faults: tuple[str, ...]
    report: Report


def meet(
    world: Any,
    node: Any,
    node_of_rank: Sequence[int],
    versions: Sequence[Mapping[str, str]],
    site: SiteConfig,
    *,
    attempt: Path | None = None,
    told: Callable[[Report], None] = lambda _: None,
) -> "dist.TCPStore":
    """Compare all nodes, then open the store of all ranks. Every rank of the job calls it once.

    world, node: mpi4py's communicators. node_of_rank, versions: of each rank as the launcher counts, where it is and
    what it runs. attempt: the attempt's folder. told: given the report on the first rank, before an error is raised.
    Raises UserError, the same on every rank.
    """
    from mpi4py import MPI

    nodes = len(set(node_of_rank))
    interface = choose_interface(site, nodes)
    for backend in ("GLOO", "NCCL") if site.interface or nodes == 1 else ("GLOO",):
        if interface:
            os.environ.setdefault(f"{backend}_SOCKET_IFNAME", interface)
    opened, store = open_door(site, nodes) if world.Get_rank() == 0 else (None, None)
    door: Door = world.bcast(opened)
    leads = node.Get_rank() == 0
    leaders = world.Split(0 if leads else MPI.UNDEFINED, world.Get_rank())
    facts = look(Question(site, nodes, node.Get_size(), door, attempt), os.environ) if leads else None
    handed_in = leaders.gather(facts) if leads else None
    faults: tuple[str, ...] = ()
    if handed_in is not None:
        verdict = judge(handed_in, node_of_rank, versions, way=door.address)
        told(verdict.report)
        faults = verdict.faults or ((door.fault,) if door.fault else ())
    faults = world.bcast(faults)
    if faults:
        raise UserError("; ".join(faults[:SHOWN]))
    return join(door) if store is None else store


def judge(
    facts: Sequence[Facts], node_of_rank: Sequence[int], versions: Sequence[Mapping[str, str]], *, way: str
) -> Verdict:
    """What is wrong with the nodes, and what there is to tell of them.

    facts: of each node, in the order in which `node_of_rank`, which may name nodes by any numbers, first names them.
    way: the address at which the first rank listens.
    """
    place = {node: number for number, node in enumerate(dict.fromkeys(node_of_rank))}
    host_of_rank = [facts[place[node]].host for node in node_of_rank]
    faults = _grouped((fault, one.host) for one in facts for fault in one.faults)
    warnings = _grouped((warning, one.host) for one in facts for warning in one.warnings)
    lines = [
        f"nodes: {len(facts)} ({_named(one.host for one in facts)}), {counted(len(node_of_rank), 'rank')}",
        f"the first rank listens on: {way or 'nothing'}",
    ]
    compared = [
        (name, list(zip((found.get(name, "none") for found in versions), host_of_rank, strict=True)), ONE_PYTHON)
        for name in dict.fromkeys(name for found in versions for name in found)
    ]
    compared.append(("GPUs", [(_counted(one.gpus, always=True), one.host) for one in facts], ALIKE))
    compared.append(("NVIDIA driver", [(one.driver, one.host) for one in facts], ALIKE))
    for name, values, mend in compared:
        if any(value for value, _ in values):
            lines.append(f"{name}: {_counted(value for value, _ in values)}")
            faults += _unlike(name, values, mend)
    behind, ahead = (pick(facts, key=lambda one: one.time_s) for pick in (min, max))
    skew_s = ahead.time_s - behind.time_s
    lines.append(f"clocks: within {skew_s:.1f} s")
    if skew_s > CLOCK_S:
        warnings.append(f"clocks of nodes differ: {behind.host} is {skew_s:.0f} s behind {ahead.host}; tell the site")
    return Verdict(tuple(faults), Report(tuple(lines), tuple(warnings), tuple(one.host for one in facts)))


def _unlike(name: str, values: Sequence[tuple[str, str]], mend: str) -> list[str]:
    """The fault where a value is not the same everywhere, with who has which. values: each with its host."""
    hosts: dict[str, list[str]] = defaultdict(list)
    for value, host in values:
        hosts[value].append(host)
    if len(hosts) == 1:
        return []
    usual, *others = sorted(hosts, key=lambda value: -len(hosts[value]))
    told = [f"{value or 'none'} on {_named(hosts[value])}" for value in others[:SHOWN]]
    return [f"nodes differ in {name}: {'; '.join(told)}, and {usual or 'none'} on {_named(hosts[usual])}; {mend}"]


def _grouped(told: Iterable[tuple[str, str]]) -> list[str]:
    """Lines with the nodes that they hold for. told: lines, each with a host."""
    hosts: dict[str, list[str]] = defaultdict(list)
    for line, host in told:
        hosts[line].append(host)
    return [f"{_named(where)}: {line}" for line, where in hosts.items()]


def _named(hosts: Iterable[str]) -> str:
    found = list(dict.fromkeys(hosts))
    return ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more nodes" if len(found) > SHOWN else "")


def _counted(values: Iterable[str], *, always: bool = False) -> str:
    """`8 x NVIDIA H200`. always: count a single value too."""
    found: dict[str, int] = defaultdict(int)
    for value in values:
        found[value] += 1
    if len(found) == 1 and not always:
        return next(iter(found))
    return ", ".join(f"{count} x {value}" for value, count in found.items())
