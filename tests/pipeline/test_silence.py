"""Who counts as silent, from looks at beats."""

from pipeline.diagnosis import Beat
from pipeline.silence import Silence


def beats(*counts: int, ended: str = "") -> dict[int, Beat]:
    return {
        rank: Beat(count, rank, "node", "computing", waiting=False, ended=ended) for rank, count in enumerate(counts)
    }


def looks(counts: list[tuple[int, ...]], *, every_s: float = 1.0, ended: str = "") -> list[bool]:
    """What is found at looks `every_s` apart, with 4 s of silence borne."""
    silence = Silence(4.0)
    return [silence.lasts(beats(*one, ended=ended), every_s * number) for number, one in enumerate(counts)]


def test_a_count_that_stands_still_for_longer_than_the_limit_is_silence() -> None:
    assert looks([(1, 1), (2, 2), (3, 2), (4, 2), (5, 2), (6, 2), (7, 2)]) == [False] * 6 + [True]


def test_one_that_is_heard_again_was_only_slow() -> None:
    assert looks([(1, 2), (2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (7, 3), (8, 3)]) == [False] * 8


def test_one_that_has_ended_or_was_never_heard_of_is_not_silent() -> None:
    assert not any(looks([(5, 5)] * 9, ended="it is done"))
    assert not any(looks([(number, 0) for number in range(1, 10)]))


def test_a_looker_that_stood_still_itself_listens_anew() -> None:
    silence = Silence(4.0)
    assert not silence.lasts(beats(1, 1), 0.0)
    assert not silence.lasts(beats(2, 1), 60.0)
    assert [silence.lasts(beats(2, 1), 60.0 + now_s) for now_s in (1.0, 2.0, 3.0, 4.0, 5.0)] == [False] * 4 + [True]


def test_a_look_is_due_eight_times_within_the_limit() -> None:
    silence = Silence(4.0)
    assert silence.is_due(0.0)
    silence.lasts(beats(1), 0.0)
    assert not silence.is_due(0.4)
    assert silence.is_due(0.5)
