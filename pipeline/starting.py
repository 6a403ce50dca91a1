"""Where each rank stands while a run starts, so that one that hangs can be named: attempts/N/starting/rank-R.

The job script ends a start that takes longer than site.start_timeout_s and leaves attempts/N/hung; this file tells
what the ranks had come to. Torch-free.
"""

import contextlib
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

STAGES = ("importing torch", "starting MPI", "comparing nodes", "connecting to the others")
"""In their order: who stands at an earlier one is whom the others wait for."""

WORLD_SIZE = ("OMPI_COMM_WORLD_SIZE", "TORUS224_WORLD_SIZE", "SLURM_NTASKS")

SHOWN = 4
"""Spans of ranks and names of nodes that a line shows of each stage."""


class Starting:
    """This rank's note."""

    def __init__(self, attempt: Path | None, rank: int, environment: Mapping[str, str]) -> None:
        """attempt: the attempt's folder; None keeps no note. rank: as the launcher calls it."""
        self._path = attempt / "starting" / f"rank-{rank}" if attempt else None
        self._world_size = next((environment[name] for name in WORLD_SIZE if environment.get(name, "").isdigit()), "0")

    def note(self, stage: str) -> None:
        """Say where this rank stands from now on. Never fails: a start needs no note."""
        if self._path is None:
            return
        line = {"host": socket.gethostname(), "stage": stage, "world_size": int(self._world_size)}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(exist_ok=True)
            self._path.write_text(json.dumps(line) + "\n")

    def end(self) -> None:
        """Take the note away: this rank has started."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
                self._path.parent.rmdir()  # by the last one


@dataclass(frozen=True)
class Standing:
    """A rank's note, read."""

    rank: int
    host: str
    stage: str
    world_size: int


def hung(attempt: Path | None) -> str:
    """The line for a start that the script ended; empty for any other attempt."""
    if attempt is None or not (attempt / "hung").exists():
        return ""
    limit_s = (attempt / "hung").read_text().strip()
    standing = read(attempt)
    reached = [one.stage for one in standing]
    stages = sorted(set(reached), key=lambda stage: STAGES.index(stage) if stage in STAGES else len(STAGES))
    parts = [_at(stage, [one for one in standing if one.stage == stage]) for stage in stages[:2]]
    parts += [f"{len(standing)} ranks in all left a note"] if len(stages) > len(parts) else []
    known = {one.rank for one in standing}
    absent = [rank for rank in range(max((one.world_size for one in standing), default=0)) if rank not in known]
    if absent:
        parts.append(f"{_ranks(absent)} never began")
    if not standing:
        parts.append("no rank began")
    took = f"start-up took longer than {limit_s} s" if limit_s else "start-up took too long"
    return f"{took}: {'; '.join(parts)}; site.start_timeout_s allows longer"


def read(attempt: Path) -> list[Standing]:
    """The notes of an attempt's ranks, by rank; those that cannot be read are left out."""
    found = []
    for path in (attempt / "starting").glob("rank-*"):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            line = json.loads(path.read_text())
            rank = int(path.name.removeprefix("rank-"))
            found.append(Standing(rank, str(line["host"]), str(line["stage"]), int(line["world_size"])))
    return sorted(found, key=lambda one: one.rank)


def _at(stage: str, standing: Sequence[Standing]) -> str:
    hosts = list(dict.fromkeys(one.host for one in standing))
    more = f" and {len(hosts) - SHOWN} more nodes" if len(hosts) > SHOWN else ""
    verb = "stands" if len(standing) == 1 else "stand"
    return f"{_ranks([one.rank for one in standing])} on {', '.join(hosts[:SHOWN])}{more} {verb} at {stage}"


def _ranks(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 5-7, 9`; of many spans the first."""
    spans: list[tuple[int, int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], rank)
        else:
            spans.append((rank, rank))
    words = [str(first) if first == last else f"{first}-{last}" for first, last in spans[:SHOWN]]
    rest = sum(last - first + 1 for first, last in spans[SHOWN:])
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(words)}{f' and {rest} more' if rest else ''}"
