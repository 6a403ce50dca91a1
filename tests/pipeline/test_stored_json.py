"""JSON of a run's files: what 64 bits hold is a number, what is longer is damage."""

import pytest

from pipeline.stored_json import parse


def test_a_number_that_fits_64_bits_is_read_and_a_longer_one_is_damage() -> None:
    assert parse('{"updates": -999999999999999999, "top1": 75.03}') == {"updates": -(10**18 - 1), "top1": 75.03}
    for digits in ("1" + "0" * 18, "-1" + "0" * 400):
        with pytest.raises(ValueError, match="digits"):
            parse(f'{{"updates": {digits}}}')
