"""The bench of checkpoints: what it takes for their cost, by a clock that only the measured calls move."""

import pytest

from bench import checkpoint
from bench.checkpoint import PAPERS_UPDATE_S, Cost, measured


class Training:
    """Updates of 0.1 s; a checkpoint is copied in 0.05 s, and slows the next three updates by 0.02 s each."""

    def __init__(self) -> None:
        self.now_s, self.slowed = 0.0, 0

    def update(self) -> None:
        self.now_s += 0.1 + (0.02 if self.slowed else 0.0)
        self.slowed = max(0, self.slowed - 1)

    def begin_saving(self, number: int) -> None:
        self.now_s += 0.05
        self.slowed = 3 if number else 0

    def finish(self) -> None:
        """Of the first one nothing ran beside it: it takes 0.3 s. The others are done by now."""
        self.now_s += 0.3 if self.now_s < 1 else 0.0


def test_the_copy_and_the_slower_updates_are_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training()
    monkeypatch.setattr(checkpoint.time, "perf_counter", lambda: training.now_s)
    found = measured(training.update, training.begin_saving, training.finish, pairs=3)
    expected = {"update_s": 0.1, "write_s": 0.3, "copy_s": 0.05, "slowing_s": 0.06}
    assert found == pytest.approx(expected)


def test_its_share_is_of_the_loop_between_two_checkpoints() -> None:
    cost = Cost(205_000_000, update_s=0.2, write_s=1.0, copy_s=0.1, slowing_s=0.4, every_updates=500)
    assert cost.share(0.2) == pytest.approx(0.5 / 100)
    assert pytest.approx(0.0996, rel=1e-3) == PAPERS_UPDATE_S  # papers.md: 99.6 ms an update
    assert cost.as_json()["share_at_the_papers_pace"] == pytest.approx(0.5 / (500 * 0.0996), rel=1e-3)
