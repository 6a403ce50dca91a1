"""The line on who is missing, from what workers said of themselves at two moments."""

from dataclasses import replace

from pipeline.diagnosis import Beat, diagnose, names

MINE = Beat(40, 0, "node1", "update 12, reduce-scatter, row for 300 s", waiting=True)


def worker(rank: int, doing: str = "update 12, reduce-scatter, column for 300 s", **changes: object) -> Beat:
    beat = Beat(40, rank, f"node{1 + rank // 4}", doing, waiting=True)
    return replace(beat, **changes)  # type: ignore[arg-type]


def line(*others: tuple[Beat, int]) -> str:
    """The line of rank 0. others: beats, and by how much each one's count has risen."""
    before = dict(enumerate([MINE, *(beat for beat, _ in others)]))
    after = dict(enumerate([MINE, *(replace(beat, count=beat.count + more) for beat, more in others)]))
    return diagnose(before, after, MINE, "Timed out waiting 300000ms")


def test_one_whose_count_stands_still_does_not_answer() -> None:
    assert line((worker(4), 3), (worker(5), 0)) == (
        "rank 5 (on node2) does not answer: last heard of in update 12, reduce-scatter, column for 300 s; "
        "rank 0 was in update 12, reduce-scatter, row for 300 s"
    )


def test_a_node_that_does_not_answer_is_named_once() -> None:
    found = line((worker(4), 0), (worker(5), 0), (worker(6), 0), (worker(8), 1))
    assert found.startswith("ranks 4, 5, 6 (on node2) do not answer: last heard of in update 12,")


def test_one_that_answers_and_is_not_in_the_collective_keeps_the_others_waiting() -> None:
    late = worker(3, "update 12, computing for 310 s", waiting=False)
    assert line((worker(2), 2), (late, 1)) == (
        "rank 3 (on node1) keeps the others waiting: update 12, computing for 310 s; "
        "rank 0 was in update 12, reduce-scatter, row for 300 s"
    )


def test_one_that_does_not_answer_comes_before_one_that_is_late() -> None:
    late = worker(3, "update 12, waiting for data for 3 s", waiting=False)
    assert line((late, 1), (worker(5), 0)).startswith("rank 5 (on node2) does not answer")


def test_one_that_has_said_why_it_ends_is_the_cause() -> None:
    ended = worker(7, ended="sample train-7-0007 cannot be decoded")
    found = line((worker(5), 0), (ended, 0))
    assert found == "rank 7 (on node2) has ended: sample train-7-0007 cannot be decoded"


def test_where_all_answer_and_all_wait_it_is_the_network() -> None:
    found = line((worker(1), 1), (worker(2), 2))
    assert "every worker answers and waits for messages that do not come: look at the network" in found
    assert "Timed out waiting 300000ms" in found


def test_of_many_some_are_named_and_the_others_counted() -> None:
    many = [worker(rank) for rank in range(4, 24)]
    assert names(many) == "ranks 4, 5, 6, 7 (on node2), 8, 9, 10, 11 (on node3) and 12 more"


def test_a_beat_is_the_same_after_its_way_through_the_store() -> None:
    beat = worker(3, "update 12, computing", waiting=False)
    assert Beat.decode(beat.encode()) == beat
