"""A path in a key=value word: no shell has read its ~."""

from pathlib import Path

import pytest

from pipeline.config.paths import check_written_out
from pipeline.errors import UserError


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("~/zz", f"run.dir=~/zz: ~ is a home folder for a shell only; write {Path.home()}/zz"),
        ("~somebody/zz", "run.dir=~somebody/zz: ~ is a home folder for a shell only; write that folder"),
        ("", "run.dir is empty; name a path"),
        (" ", "run.dir is empty; name a path"),
    ],
)
def test_a_home_folders_sign_and_an_empty_path_are_refused(path: str, line: str) -> None:
    with pytest.raises(UserError) as caught:
        check_written_out("run.dir", path)
    assert str(caught.value) == line


def test_a_sign_elsewhere_is_a_name() -> None:
    check_written_out("run.dir", "runs/a~")
