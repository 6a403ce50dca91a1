"""A node's memory is its user's alone, whatever the umask, and what others put beside it is left alone."""

import os
import stat
from pathlib import Path

import pytest

from pipeline.data.segment import PREFIX, remove_stale, share
from pipeline.evaluate import OneProcess


class Looking(OneProcess):
    """A node of one worker that looks at the folder while the file has a name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seen: dict[str, int] = {}

    def Barrier(self) -> None:
        self.seen = {path.name: stat.S_IMODE(path.stat().st_mode) for path in self._folder.iterdir()}


def test_a_segment_is_0600_while_it_has_a_name_that_nobody_can_guess(tmp_path: Path) -> None:
    nodes = [Looking(tmp_path), Looking(tmp_path)]
    before = os.umask(0)
    try:
        for node in nodes:
            share(node, 100, folder=tmp_path)
    finally:
        os.umask(before)
    (first,), (second,) = (node.seen for node in nodes)
    assert [list(node.seen.values()) for node in nodes] == [[0o600], [0o600]]
    assert first != second
    assert len(first.removeprefix(PREFIX)) == 16  # 64 random bits
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["a link", "a pipe"])
def test_what_others_put_under_such_a_name_is_neither_followed_nor_waited_for(tmp_path: Path, kind: str) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    planted = tmp_path / f"{PREFIX}planted"
    if kind == "a link":
        planted.symlink_to(kept)
    else:
        os.mkfifo(planted)
    remove_stale(tmp_path)
    assert kept.read_text() == "mine"
