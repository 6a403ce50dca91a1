"""The one kind of error a user is meant to read.

Everything a user, a site or a data set can get wrong is raised as `UserError` with one line that says what was wrong,
what was found and what would be right. The entry points print that line and exit with 1; any other exception is a
fault of ours and keeps its traceback.
"""

import difflib
from collections.abc import Iterable

from pipeline.wording import printable

LONGEST = 1000
"""Characters of a line: a value in it may be a whole file."""


class UserError(Exception):
    """A mistake that a person can mend: its text is one line, ready to be printed, whatever a value in it holds."""

    def __init__(self, text: str) -> None:
        line = printable(" ".join(filter(None, map(str.strip, text.splitlines()))))
        super().__init__(line if len(line) <= LONGEST else f"{line[:LONGEST]}…")


class LostWorkerError(Exception):
    """Another worker does not answer, so that the run cannot go on: its text is one line, ready to be printed."""

    def __init__(self, text: str, *, guessed: bool = False) -> None:
        """guessed: whether this worker heard nothing of the others either, and may be the one that is cut off."""
        super().__init__(text)
        self.guessed = guessed


def nearest(word: str, valid: Iterable[str], *, count: int = 1) -> list[str]:
    """The `count` words of `valid` that are nearest to `word`, best first; empty when none is near."""
    return difflib.get_close_matches(word, list(valid), n=count, cutoff=0.5)
