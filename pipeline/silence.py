"""Workers that have not been heard of for too long, from looks at everybody's beats now and then. Pure; torch-free."""

from collections.abc import Mapping

from pipeline.diagnosis import Beat

LOOKS = 8
"""In the longest silence that is borne: all beats of thousands of workers are some 100 kB."""


class Silence:
    """How long each worker has been silent, as its count stood still from look to look."""

    def __init__(self, limit_s: float) -> None:
        """limit_s: the longest silence that is borne."""
        self._limit_s = limit_s
        self._looked_s: float | None = None
        self._heard: dict[int, tuple[int, float]] = {}
        """By rank: a count, and when it was first seen."""

    def is_due(self, now_s: float) -> bool:
        """Whether it is time to look; now_s: of a clock that does not jump."""
        return self._looked_s is None or now_s >= self._looked_s + self._limit_s / LOOKS

    def lasts(self, beats: Mapping[int, Beat], now_s: float) -> bool:
        """Look at all beats: whether somebody has been silent beyond the limit.

        Not one that has said that it ends, nor one that was never heard of, whose start has a time-out of its own. A
        looker that stood still itself, as one does that a scheduler suspended with all others, listens anew.
        """
        if self._looked_s is not None and now_s > self._looked_s + self._limit_s / 2:
            self._heard.clear()
        self._looked_s = now_s
        for rank, beat in beats.items():
            if beat.ended or beat.count == 0 or self._heard.get(rank, (None,))[0] != beat.count:
                self._heard[rank] = (beat.count, now_s)
        return any(now_s - since_s > self._limit_s for _, since_s in self._heard.values())
