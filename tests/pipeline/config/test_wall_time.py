"""Wall times as people and schedulers write them."""

import pytest

from pipeline.config.wall_time import clock, seconds
from pipeline.errors import UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:00:00", 3600), ("0:02:05", 125), ("168:00:00", 604800), ("2-01:00:00", 176400), ("90", 90), (" 3600 ", 3600)],
)
def test_each_way_of_writing_one_is_read(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text", ["", "0", "0:00:00", "1:99:00", "1:00", "an hour", "-5", "1:00:00:00", "1e3", "9" * 12]
)
def test_what_is_none_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError, match=r"site\.wall_time="):
        seconds(text)


@pytest.mark.parametrize(("total_s", "text"), [(125, "0:02:05"), (3600, "1:00:00"), (604800, "168:00:00")])
def test_a_clock_is_as_all_schedulers_read_it(total_s: int, text: str) -> None:
    assert clock(total_s) == text
    assert seconds(text) == total_s
