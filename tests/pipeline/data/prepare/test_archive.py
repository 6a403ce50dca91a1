"""Tar files are read in place; what could write outside a folder, and what is not whole, is refused in one line."""

import gzip
import io
import re
import tarfile
from pathlib import Path

import pytest

from pipeline.data.prepare.archive import Archive, Member, last_of_each
from pipeline.errors import UserError
from tests.pipeline.data.prepare import ilsvrc
from tests.pipeline.data.prepare.command import prepare

A, B = ("a/x.jpg", b"x" * 700), ("a/y.jpg", b"y" * 512)


def written(path: Path, *members: tuple[str, bytes]) -> Archive:
    path.write_bytes(ilsvrc.tar_of(members))
    return Archive(path, shown=path.name)


def contents(archive: Archive) -> dict[str, bytes]:
    whole = archive.path.read_bytes()
    return {member.name: whole[member.offset : member.offset + member.size] for member in archive.members()}


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_where_they_lie_in_every_format_of_tar(tmp_path: Path, kind: int) -> None:
    long = "b/" * 45 + "ümlaut " + "n" * 60 + ".jpg"
    with tarfile.open(tmp_path / "a.tar", "w", format=kind) as tar:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in (A, (long, b"z" * 1025), ("./" + B[0], B[1])):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    assert contents(Archive(tmp_path / "a.tar")) == {A[0]: A[1], long: b"z" * 1025, B[0]: B[1]}


def test_a_tar_inside_a_tar_is_read_in_place_even_without_its_closing_blocks(tmp_path: Path) -> None:
    inner = ilsvrc.tar_of([A, B])
    blocks = inner[: (512 + 1024) + (512 + 512)]  # its headers and contents alone
    outer = written(tmp_path / "outer.tar", ("one.tar", blocks), ("two.tar", inner))
    one, two = outer.members()
    assert contents(outer.inner(one)) == contents(outer.inner(two)) == dict([A, B])


@pytest.mark.parametrize("name", ["/etc/x.jpg", "../x.jpg", "a/../../x.jpg", "a/.."])
def test_a_path_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    archive = written(tmp_path / "a.tar", A, (name, b"x"))
    with pytest.raises(
        UserError, match=re.escape(f"a.tar is refused: its member {name!r} has a path that leads outside")
    ):
        archive.members()


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "a link"),
        (tarfile.LNKTYPE, "a link"),
        (tarfile.FIFOTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
    ],
)
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes, what: str) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        member = tarfile.TarInfo("a.jpg")
        member.type, member.linkname = kind, "b.jpg"
        tar.addfile(member)
    with pytest.raises(UserError, match=f"'a.jpg' is {what}.*only plain files are taken"):
        Archive(tmp_path / "a.tar").members()


@pytest.mark.parametrize("left", [600, 1800, 2100])
def test_an_archive_that_is_cut_short_is_told(tmp_path: Path, left: int) -> None:
    archive = written(tmp_path / "a.tar", A, B)
    archive.path.write_bytes(archive.path.read_bytes()[:left])  # in a content, in a header, in the last content
    with pytest.raises(UserError, match=r"a\.tar is no whole tar file"):
        archive.members()


def test_an_inner_archive_that_is_cut_short_is_told_by_its_name(tmp_path: Path) -> None:
    outer = written(tmp_path / "outer.tar", ("one.tar", ilsvrc.tar_of([A, B])[:2100]), ("two.tar", ilsvrc.tar_of([A])))
    with pytest.raises(UserError, match=r"outer.tar/one.tar is no whole tar file \('a/y.jpg' reaches beyond its end\)"):
        outer.inner(outer.members()[0]).members()


def test_a_damaged_header_is_not_taken_for_the_end(tmp_path: Path) -> None:
    archive = written(tmp_path / "a.tar", A, B)
    content = bytearray(archive.path.read_bytes())
    content[512 + 1024 + 3] ^= 0xFF
    archive.path.write_bytes(content)
    with pytest.raises(UserError, match="no header at byte 1,536"):
        archive.members()


def test_a_compressed_archive_and_what_is_none_are_told(tmp_path: Path) -> None:
    for content in (gzip.compress(ilsvrc.tar_of([A])), b"", b"text\n" * 300):
        (tmp_path / "a.tar").write_bytes(content)
        with pytest.raises(UserError, match=r"a\.tar is no whole tar file"):
            Archive(tmp_path / "a.tar").members()


def test_of_members_with_one_name_the_last_counts_as_where_tar_unpacks_them() -> None:
    members = [Member("a", 0, 1), Member("b", 10, 1), Member("a", 20, 1)]
    kept, oddities = last_of_each(members, Archive(Path("x.tar"), shown="x.tar"), "train")
    assert kept == [Member("b", 10, 1), Member("a", 20, 1)]
    assert [(oddity.kind, oddity.name) for oddity in oddities] == [("duplicate", "x.tar/a")]


def test_a_hostile_archive_writes_nothing_anywhere(tmp_path: Path) -> None:
    (tmp_path / "tars").mkdir()
    image = ilsvrc.encoded(ilsvrc.photo(1))
    written(tmp_path / "tars" / "train-0.tar", ("0.jpg", image), ("0.cls", b"0"), ("../../escaped.jpg", image))
    refused = prepare(tmp_path / "data", tmp_path / "tars")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "'../../escaped.jpg' has a path that leads outside" in refused.stderr
    assert {path.name for path in tmp_path.rglob("*")} == {"tars", "train-0.tar", "data", ".prepare", "lock"}
