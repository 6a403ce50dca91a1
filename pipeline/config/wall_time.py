"""Wall times as people write them, in seconds and back. Torch-free; pure functions."""

import re

from pipeline.errors import UserError

PATTERN = re.compile(r"(?:(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>\d{1,2}):)?(?P<seconds>\d+)")

AUTO = "auto"
"""One that fits the estimate, worked out when a run is composed."""
DEFAULT_S = 3600
"""What `auto` is where nothing can be estimated."""


def seconds(text: str) -> int:
    """Seconds of `H:MM:SS`, `D-HH:MM:SS` or plain seconds. Raises UserError for anything else, and for none at all.

    A value that YAML took for a number in base 60 (1:00:00 without quotes is 3600 there) means the same.
    """
    found = PATTERN.fullmatch(text.strip())
    if found is None:
        raise UserError(f"site.wall_time={text}: write H:MM:SS, D-HH:MM:SS or seconds, as 1:30:00")
    parts = {name: int(value or 0) for name, value in found.groupdict().items()}
    if found["hours"] is not None and (parts["minutes"] > 59 or parts["seconds"] > 59):
        raise UserError(f"site.wall_time={text}: minutes and seconds go to 59; write H:MM:SS, as 1:30:00")
    total = ((parts["days"] * 24 + parts["hours"]) * 60 + parts["minutes"]) * 60 + parts["seconds"]
    if not 0 < total < 10**9:
        raise UserError(f"site.wall_time={text}: must be above 0 and below 30 years")
    return total


def clock(total_s: int) -> str:
    """`H:MM:SS`, which all schedulers read alike."""
    return f"{total_s // 3600}:{total_s // 60 % 60:02d}:{total_s % 60:02d}"
