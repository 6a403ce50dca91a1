"""JSON as a run's files hold it: a number that no run could count to is damage, as half a line is. Torch-free."""

import json
from typing import Any

LONGEST = 18
"""Digits of a whole number: it fits 64 bits, and a float."""


def parse(text: str) -> Any:
    """What a JSON text says. Raises ValueError for one that is none, and for a whole number of more than 18 digits."""
    return _DECODER.decode(text)


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > LONGEST:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


_DECODER = json.JSONDecoder(parse_int=_whole)
