"""Watching a run: updates that take far longer than the others, who held them up, and a loss that is no number.

What a worker does of itself is waiting for its images and computing; the rest of an update it waits for averaged
gradients, so the worker that others wait for is the one with the most of its own. Torch-free; numbers in, lines out.
"""

import math
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import UserError

KNOWN = 200
"""Updates whose median is the measure."""
FEWEST = 20
"""Updates before any is called slow: a run's first ones are."""
SHARE = 0.5
"""Of the time that an update took too long: what a worker must have more than the median worker to be its cause."""


SINCE = "since the last agreement"
"""What the times of a slow update's phases are of: workers tell one another now and then, not after each update."""


@dataclass(frozen=True)
class Spent:
    """Where the time of some updates went on one worker, in seconds."""

    data_s: float
    compute_s: float
    averaging_s: float
    """Waiting for averaged gradients and for nothing else."""

    @property
    def own_s(self) -> float:
        return self.data_s + self.compute_s


class SlowUpdates:
    """Finds updates that take `times` times the median of those before; alike on all workers for the same numbers."""

    def __init__(self, times: float | None) -> None:
        """times: None finds none."""
        self._times = times
        self._known: deque[float] = deque(maxlen=KNOWN)

    def find(self, took_s: Sequence[float]) -> dict[int, float]:
        """Of some more updates, the places of the slow ones, and how many times the median each took."""
        found = {}
        for place, seconds in enumerate(took_s):
            median = statistics.median(self._known) if len(self._known) >= FEWEST else math.inf
            if self._times is not None and seconds > self._times * median:
                found[place] = seconds / median
            self._known.append(seconds)
        return found


def line(update: int, took_s: float, times: float, spent: Sequence[Spent], hosts: Sequence[str]) -> str:
    """What to say of a slow update. spent, hosts: by worker, of the updates since the last agreement."""
    own = [one.own_s for one in spent]
    slowest = max(range(len(own)), key=own.__getitem__)
    longer_s = own[slowest] - statistics.median_low(own)
    began = f"update {update:,} took {took_s:.2f} s, {times:.1f} times the median"
    if len(own) == 1:
        return f"{began}: most in {_most(spent)}"
    if longer_s < SHARE * took_s * (1 - 1 / times):
        return f"{began}: all workers spent it alike, most in {_most(spent)}"
    phase = "data" if spent[slowest].data_s > spent[slowest].compute_s else "compute"
    seconds = spent[slowest].data_s if phase == "data" else spent[slowest].compute_s
    return f"{began}: rank {slowest} (on {hosts[slowest]}) was the slowest, in {phase} ({seconds:.2f} s {SINCE})"


def _most(spent: Sequence[Spent]) -> str:
    sums = {
        "data": sum(one.data_s for one in spent),
        "compute": sum(one.compute_s for one in spent),
        "communication": sum(one.averaging_s for one in spent),
    }
    phase = max(sums, key=sums.__getitem__)
    return f"{phase} ({sums[phase] / len(spent):.2f} s {SINCE})"


class LostLoss:
    """Ends a run whose loss is no number any more: nothing that follows would be worth its node-hours."""

    def __init__(self, most: int | None) -> None:
        """most: updates in a row; None: it goes on whatever the loss is."""
        self._most, self._lost = most, 0

    def check(self, first_update: int, losses: Sequence[float]) -> None:
        """Take the losses of some more updates, the first of which is `first_update`. Raises UserError."""
        for update, loss in enumerate(losses, first_update):
            self._lost = 0 if math.isfinite(loss) else self._lost + 1
            if self._most is not None and self._lost >= self._most:
                raise UserError(
                    f"the loss has been no number for {self._lost} updates, since update {update - self._lost + 1:,}; "
                    "start a new run with a lower optim.lr, or let this one go on with run.stop_after_lost_loss=null"
                )
