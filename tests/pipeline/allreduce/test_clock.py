"""What averaging takes, in all and exposed, on a clock that the test turns."""

import time

import pytest

from pipeline.allreduce.clock import Clock


class Hand:
    """A clock that stands where it is put."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def turn(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    return Hand(monkeypatch)


def test_the_total_lasts_while_any_bucket_is_under_way(hand: Hand) -> None:
    clock = Clock()
    clock.handed_over(last=False)
    hand.turn(1)
    clock.handed_over(last=False)
    hand.turn(2)
    clock.averaged()
    hand.turn(4)
    clock.averaged()
    hand.turn(8)  # nothing is under way
    clock.handed_over(last=False)
    hand.turn(16)
    clock.averaged()
    assert clock.take() == (0.0, 1 + 2 + 4 + 16)


def test_exposed_is_from_the_last_bucket_of_an_update_to_the_end_of_all(hand: Hand) -> None:
    clock = Clock()
    for _ in range(2):  # updates
        clock.handed_over(last=False)
        hand.turn(1)
        clock.handed_over(last=True)
        hand.turn(2)
        clock.averaged()
        hand.turn(4)
        clock.averaged()
        hand.turn(8)
    assert clock.take() == (2 * 6.0, 2 * 7.0)


def test_what_was_taken_is_not_given_again(hand: Hand) -> None:
    clock = Clock()
    clock.handed_over(last=True)
    hand.turn(1)
    clock.averaged()
    assert clock.take() == (1.0, 1.0)
    assert clock.take() == (0.0, 0.0)
