"""The steps between a source and its shards: the disk is looked at first, FROM may be several files."""

import io
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from rich.console import Console

from pipeline.data.prepare.__main__ import main, sources
from pipeline.data.prepare.options import Options
from pipeline.data.prepare.plan import PlannedShard, plan_shards
from pipeline.data.prepare.program import check_disk
from pipeline.data.prepare.source import Source, StoredImage
from pipeline.errors import UserError

Usage = namedtuple("Usage", ["total", "used", "free"])


@pytest.fixture
def four_shards(monkeypatch: pytest.MonkeyPatch) -> list[PlannedShard]:
    """Of 999,987,200 bytes each, and a disk with 3.1 GB free."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**10, 0, 3_100_000_000))
    images = [StoredImage("/x", 0, 19528 * 512, f"{n}.jpg", 0, 0) for n in range(400)]
    return plan_shards(Source("", "", [], {"train": images}), Options(shard_bytes=10**9))


@pytest.mark.parametrize(
    ("missing", "share", "line"),
    [
        (3, 1.0, "4 shards, about 4.0 GB, 1 there already: 3.0 GB to write, 3.1 GB free in /tmp\n"),
        (4, 0.5, "4 shards, about 2.0 GB: 2.0 GB to write, 3.1 GB free in /tmp\n"),
    ],
)
def test_the_disk_is_looked_at_before_and_the_sum_is_shown(
    four_shards: list[PlannedShard], missing: int, share: float, line: str
) -> None:
    shown = io.StringIO()
    check_disk(Console(file=shown), Path("/tmp"), four_shards, four_shards[:missing], share)
    assert shown.getvalue() == line


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(four_shards: list[PlannedShard]) -> None:
    with pytest.raises(UserError) as raised:
        check_disk(Console(file=io.StringIO()), Path("/tmp"), four_shards, four_shards, 1.0)
    expected = "/tmp has 3.1 GB free, and about 4.0 GB are to be written: 899.9 MB more are needed"
    assert str(raised.value) == expected


def test_from_is_one_path_or_several_as_a_shell_has_them(tmp_path: Path) -> None:
    spaced = tmp_path / "a b"
    spaced.mkdir()
    assert sources(str(spaced)) == [spaced]
    assert sources("/x/train.tar '/x y/val.tar'") == [Path("/x/train.tar"), Path("/x y/val.tar")]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--processes=none"], "error: PROCESSES=none: a number of processes, as 8"),
        (["prepare.shorter=256"], "error: prepare.shorter=256: no such option, did you mean prepare.shorter_side?"),
        ([], "error: {source}: no such file or folder; FROM is a folder with ILSVRC2012_img_train.tar"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
    source = tmp_path / "none"
    assert main([f"--data={tmp_path / 'data'}", f"--from={source}", *words]) == 1
    errors = capfd.readouterr().err
    assert errors.startswith(line.format(source=source))
    assert errors.count("\n") == 1
