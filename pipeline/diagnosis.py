"""Who keeps a collective from ending: from what every worker said of itself, twice, to one line for a person.

Torch's backends name an address at most, and mpirun names a rank only once it is dead: one that is stopped, swaps, or
computes for ever is named by nobody. Torch-free.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

NAMED = 8
"""Ranks that a line names before it only counts."""


@dataclass(frozen=True)
class Beat:
    """What a worker says of itself every second."""

    count: int
    """Rises with every beat: one that stands still is of a worker that is dead or stopped."""
    rank: int
    """As the launcher's words and the log files have it."""
    host: str
    doing: str
    waiting: bool
    """Whether that is a collective, in which it waits for others."""
    ended: str = ""
    """Why it has ended, where it could say so."""

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str | bytes) -> "Beat":
        return cls(**json.loads(text))


def silent(before: Mapping[int, Beat], after: Mapping[int, Beat]) -> list[Beat]:
    """The workers whose count has not risen, and that have not said that they end."""
    return [beat for rank, beat in after.items() if not beat.ended and beat.count == before[rank].count]


def diagnose(before: Mapping[int, Beat], after: Mapping[int, Beat], mine: Beat, error: str) -> str:
    """One line on who is missing.

    before, after: every worker's last beat, seconds apart. mine: of the worker that met the error. error: its words.
    """
    here = f"rank {mine.rank} was in {mine.doing}"
    ended = [beat for beat in after.values() if beat.ended]
    if ended:
        return f"rank {ended[0].rank} (on {ended[0].host}) has ended: {ended[0].ended}"
    missing = [beat for beat in silent(before, after) if beat.rank != mine.rank]
    if missing:
        verb = "does" if len(missing) == 1 else "do"
        return f"{names(missing)} {verb} not answer: last heard of in {missing[0].doing}; {here}"
    late = [beat for beat in after.values() if not beat.waiting and beat.rank != mine.rank]
    if late:
        verb = "keeps" if len(late) == 1 else "keep"
        return f"{names(late)} {verb} the others waiting: {late[0].doing}; {here}"
    return f"every worker answers and waits for messages that do not come: look at the network; {here} ({error})"


def names(beats: Sequence[Beat]) -> str:
    """Ranks and where they run: `rank 5 (on node2)`, `ranks 4, 5 (on node2), 9 (on node3)`."""
    hosts: dict[str, list[str]] = {}
    for beat in beats[:NAMED]:
        hosts.setdefault(beat.host, []).append(str(beat.rank))
    named = ", ".join(f"{', '.join(ranks)} (on {host})" for host, ranks in hosts.items())
    more = f" and {len(beats) - NAMED} more" if len(beats) > NAMED else ""
    return f"rank{'s' if len(beats) > 1 else ''} {named}{more}"
