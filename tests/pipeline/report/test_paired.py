"""Paired differences against published t tables and Student's own example."""

import pytest

from pipeline.report.paired import difference, t_quantile

# Two-sided 95 %, as t tables print it (Fisher & Yates; NIST/SEMATECH e-Handbook 1.3.6.7.2).
TABLE = {1: 12.706, 2: 4.303, 4: 2.776, 9: 2.262, 30: 2.042}

# Student 1908, The probable error of a mean: hours of sleep gained by two drugs on the same ten patients.
FIRST = (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)
SECOND = (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)


@pytest.mark.parametrize("degrees", TABLE)
def test_the_quantile_is_the_tables(degrees: int) -> None:
    assert round(t_quantile(degrees), 3) == TABLE[degrees]


def test_students_sleep_data_have_their_known_interval() -> None:
    found = difference(dict(enumerate(SECOND)), dict(enumerate(FIRST)))
    assert found is not None
    assert (found.pairs, round(found.mean, 2)) == (10, 1.58)
    # R's documentation, ?sleep: t.test(extra ~ group, paired): 0.7001142 to 2.4598858
    assert [found.low, found.high] == pytest.approx([0.7001142, 2.4598858], abs=1e-7)


def test_only_seeds_that_both_have_make_pairs_and_one_pair_has_no_interval() -> None:
    found = difference({0: 90.0, 1: 91.0, 7: 10.0}, {0: 91.0, 8: 99.0})
    assert found is not None
    assert (found.pairs, found.mean, found.low, found.high) == (1, -1.0, None, None)
    assert difference({1: 90.0}, {2: 90.0}) is None


def test_pairs_that_all_differ_alike_have_an_interval_of_no_width() -> None:
    found = difference({0: 90.0, 1: 80.0}, {0: 91.0, 1: 81.0})
    assert found is not None
    assert (found.low, found.high) == (-1.0, -1.0)
