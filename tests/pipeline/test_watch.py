"""Slow updates and lost losses: found by hand-made numbers, blamed on who did it."""

import math

import pytest

from pipeline.errors import UserError
from pipeline.watch import LostLoss, SlowUpdates, Spent, line

HOSTS = ["node0", "node0", "node1", "node1"]
USUAL = Spent(data_s=0.01, compute_s=0.2, averaging_s=0.05)


def test_an_update_is_slow_from_so_many_times_the_median_on() -> None:
    slow = SlowUpdates(5.0)
    assert slow.find([0.1] * 30) == {}
    assert slow.find([0.1, 0.49, 0.51, 0.1]) == {2: pytest.approx(5.1)}


def test_the_first_updates_of_a_run_are_never_slow() -> None:
    slow = SlowUpdates(5.0)
    assert slow.find([9.0] + [0.1] * 18 + [9.0]) == {}
    assert slow.find([9.0]) == {0: pytest.approx(90.0)}


def test_a_run_that_has_become_slower_for_good_is_not_told_of_for_ever() -> None:
    slow = SlowUpdates(5.0)
    slow.find([0.1] * 200)
    assert len(slow.find([1.0] * 300)) < 110


def test_none_is_found_where_none_is_asked_for() -> None:
    assert SlowUpdates(None).find([0.1] * 30 + [99.0]) == {}


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({2: Spent(1.8, 0.2, 0.0)}, "rank 2 (on node1) was the slowest, in data (1.80 s since the last agreement)"),
        ({0: Spent(0.01, 1.9, 0.0)}, "rank 0 (on node0) was the slowest, in compute (1.90 s since the last agreement)"),
    ],
)
def test_the_worker_that_the_others_waited_for_is_named(others: dict[int, Spent], words: str) -> None:
    spent = [others.get(rank, Spent(0.01, 0.2, 1.7)) for rank in range(4)]
    assert line(512, 2.0, 10.0, spent, HOSTS) == f"update 512 took 2.00 s, 10.0 times the median: {words}"


@pytest.mark.parametrize(
    ("alike", "words"),
    [
        (Spent(0.01, 0.2, 1.8), "most in communication (1.80 s since the last agreement)"),
        (Spent(1.8, 0.2, 0.1), "most in data (1.80 s since the last agreement)"),
        (Spent(0.01, 1.9, 0.1), "most in compute (1.90 s since the last agreement)"),
    ],
)
def test_what_all_spent_alike_is_no_workers_fault(alike: Spent, words: str) -> None:
    assert line(7, 2.0, 10.0, [alike] * 4, HOSTS).endswith(f": all workers spent it alike, {words}")


def test_one_worker_alone_is_nobodys_slowest() -> None:
    assert "times the median: most in data" in line(7, 2.0, 10.0, [Spent(1.9, 0.1, 0.0)], HOSTS)


def test_a_loss_that_is_no_number_for_so_many_updates_ends_the_run() -> None:
    lost = LostLoss(3)
    lost.check(1, [2.0, math.nan, math.inf])
    lost.check(4, [1.9, math.nan])
    with pytest.raises(UserError, match="no number for 3 updates, since update 5; start a new run with a lower"):
        lost.check(6, [math.nan, math.nan, math.nan])


def test_it_may_be_let_go_on() -> None:
    LostLoss(None).check(1, [math.nan] * 1000)
