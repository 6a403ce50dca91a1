"""The steps between a source and its shards: the disk is looked at first, FROM may be several files."""

import errno
import io
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from rich.console import Console

from pipeline.data.prepare.__main__ import main, sources
from pipeline.data.prepare.kept import DataFolder
from pipeline.data.prepare.options import Options
from pipeline.data.prepare.plan import PlannedShard, plan_shards
from pipeline.data.prepare.program import check_disk, finish
from pipeline.data.prepare.source import Source, StoredImage
from pipeline.errors import UserError
from tests.pipeline.data.prepare import ilsvrc
from tests.pipeline.data.prepare.command import prepare, read_split, report_of

Usage = namedtuple("Usage", ["total", "used", "free"])


@pytest.fixture
def four_shards(monkeypatch: pytest.MonkeyPatch) -> list[PlannedShard]:
    """Of 999,987,200 bytes each, with 24,576 beside it and 200 for each of its 100 images; a disk with 3.1 GB free."""
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
    expected = "/tmp has 3.1 GB free, and about 4.0 GB are to be written: 900.1 MB more are needed"
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
        (
            ["--shorter_side=2"],
            "error: unrecognized arguments: --shorter_side=2; options are words as prepare.KEY=VALUE",
        ),
        (["--proc=1"], "error: unrecognized arguments: --proc=1; options"),
        ([], "error: {source}: no such file or folder; FROM is a folder with ILSVRC2012_img_train.tar"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
    source = tmp_path / "none"
    assert main([f"--data={tmp_path / 'data'}", f"--from={source}", *words]) == 1
    errors = capfd.readouterr().err
    assert errors.startswith(line.format(source=source))
    assert errors.count("\n") == 1


def write_classes(top: Path, each: int, content: bytes) -> None:
    for name in ("ant", "[b]bee"):
        (top / name).mkdir(parents=True)
        for number in range(each):
            (top / name / f"{name[-1]}{number}.jpg").write_bytes(content)


def test_a_set_that_cannot_be_trained_on_yet_gives_the_command_that_mends_it(tmp_path: Path) -> None:
    write_classes(tmp_path / "a b", 3, ilsvrc.encoded(ilsvrc.photo(1)))
    done = prepare(tmp_path / "data", tmp_path / "a b", "prepare.shorter_side=32")
    assert done.returncode == 0, done.stderr
    assert "2: [b]bee, ant" in done.stdout
    line = done.stdout.splitlines()[-1]
    words = "prepare.shorter_side=32 prepare.validation_share=0.1"
    assert line == (
        "no run can train on it yet: there are no images to validate with; to hold out a tenth: "
        f"make prepare DATA={tmp_path}/data FROM='{tmp_path}/a b' ARGS='{words}'"
    )
    done = prepare(tmp_path / "data", tmp_path / "a b", *words.split())
    assert done.returncode == 0, done.stderr
    assert "no run can train" not in done.stdout
    assert [len(read_split(tmp_path / "data", split)) for split in ("train", "validation")] == [4, 2]


def test_a_set_of_which_no_image_can_be_decoded_is_refused(tmp_path: Path) -> None:
    write_classes(tmp_path / "from", 2, b"")
    done = prepare(tmp_path / "data", tmp_path / "from", "prepare.unreadable=leave_out")
    assert done.returncode == 1
    report = tmp_path / "data" / "report.txt"
    assert done.stderr == f"error: train: none of its images can be decoded; {report} names them\n"
    assert not (tmp_path / "data" / "manifest.json").exists()


def test_one_class_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "from" / "cat").mkdir(parents=True)
    (tmp_path / "from" / "cat" / "1.jpg").write_bytes(b"x")
    done = prepare(tmp_path / "data", tmp_path / "from")
    assert done.stderr == "error: FROM has one class, cat; there is nothing to tell apart\n"


def test_a_disk_that_is_full_at_the_very_end_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    source = Source("", "", ["a", "b"], {"train": []})
    with pytest.raises(UserError) as raised:
        finish(Console(file=io.StringIO()), DataFolder(tmp_path), source, [tmp_path], [], Options())
    assert str(raised.value) == (
        f"{tmp_path}: No space left on device; what is complete is kept, and the same command goes on from there"
    )


def test_a_data_folder_that_cannot_be_made_says_what_stands_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("-")
    (tmp_path / "link").symlink_to(tmp_path / "none")
    for data, line in (
        (tmp_path / "file", f"{tmp_path}/file cannot be a folder: {tmp_path}/file is a file"),
        (tmp_path / "file" / "x" / "y", f"{tmp_path}/file/x/y cannot be a folder: {tmp_path}/file is a file"),
        (tmp_path / "link", f"{tmp_path}/link cannot be made: {tmp_path}/link is a link to nothing"),
        (Path("/proc/none/x"), "/proc/none/x cannot be made in /proc: no folder can be made there"),
    ):
        with pytest.raises(UserError) as raised, DataFolder(data).held():
            pass
        assert str(raised.value) == line


def test_what_lies_beside_the_splits_is_told_before_anything_is_packed(tmp_path: Path) -> None:
    write_classes(tmp_path / "from" / "Train", 2, ilsvrc.encoded(ilsvrc.photo(1)))
    write_classes(tmp_path / "from" / "test", 3, b"x")
    for number in range(7):
        (tmp_path / "from" / f"{number}.jpg").write_bytes(b"x")
    done = prepare(tmp_path / "data", tmp_path / "from", "prepare.validation_share=0.5")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("passed over: ")]
    assert lines == [
        "passed over: test (a folder with 6 images, of no split that is used)",
        *(f"passed over: {number}.jpg (in no class folder)" for number in range(4)),
        "passed over: 3 more, which the report names",
    ]
    assert report_of(tmp_path / "data") == {"passed over": [*(f"{number}.jpg" for number in range(7)), "test"]}
