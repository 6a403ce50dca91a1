"""Reading tar files without unpacking them: headers only, by seeking; a tar inside a tar is read in place.

What could write outside a folder if somebody unpacked it is refused: such an archive is not what it says it is.
"""

import os
import posixpath
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.data.prepare.source import Oddity, StoredImage, is_image
from pipeline.errors import UserError


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file of an archive: `size` bytes from `offset` on of the outermost tar file."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Archive:
    """A tar file, or a tar inside one: bytes `start` to `end` of `path`."""

    path: Path
    start: int = 0
    end: int | None = None
    """None: the end of the file."""
    shown: str = ""
    """Its name for a person: a path below the source."""

    def inner(self, member: Member) -> "Archive":
        """The tar that a member is."""
        return Archive(self.path, member.offset, member.offset + member.size, self.shown + "/" + member.name)

    def members(self) -> list[Member]:
        """Its regular files, in order. Raises UserError for what is no tar, cut short, or hostile."""
        return list(self.walk())

    def walk(self) -> Iterator[Member]:
        """As `members`, one at a time."""
        with self.path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # headers stand far apart
            end = os.fstat(file.fileno()).st_size if self.end is None else self.end
            file.seek(self.start)
            try:
                tar = tarfile.TarFile(fileobj=file)
                while (found := tar.next()) is not None and found.offset < end:
                    tar.members.clear()  # type: ignore[attr-defined]  # a million of them would be kept
                    if (member := self._checked(found, end)) is not None:
                        yield member
            except tarfile.TarError as error:
                raise self._damaged(str(error)) from None
            rest = os.pread(file.fileno(), tarfile.BLOCKSIZE, tar.offset) if tar.offset < end else b""
            if rest.strip(b"\0"):  # tarfile takes an unreadable header for the end
                raise self._damaged(f"no header at byte {tar.offset:,}")

    def stored(self, member: Member, label: int, changed_ns: int) -> StoredImage:
        """A member as an image."""
        return StoredImage(str(self.path), member.offset, member.size, f"{self.shown}/{member.name}", label, changed_ns)

    def _checked(self, found: tarfile.TarInfo, end: int) -> Member | None:
        """A member that can be taken; None for a folder."""
        name = found.name
        if name.startswith("/") or ".." in name.split("/"):
            raise UserError(f"{self._named()} is refused: its member {name!r} has a path that leads outside")
        if found.isdir():
            return None
        if not found.isreg() or found.issparse():
            what = "a link" if found.issym() or found.islnk() else "sparse" if found.issparse() else "a device or pipe"
            raise UserError(f"{self._named()} is refused: its member {name!r} is {what}; only plain files are taken")
        if found.offset_data + found.size > end:
            raise self._damaged(f"{name!r} reaches beyond its end")
        return Member(posixpath.normpath(name), found.offset_data, found.size)

    def _named(self) -> str:
        return self.shown if self.end is not None else str(self.path)

    def _damaged(self, why: str) -> UserError:
        return UserError(
            f"{self._named()} is no whole tar file ({why}); fetch again what was cut short, decompress "
            "what is compressed"
        )


def last_of_each(members: Iterable[Member], archive: Archive, split: str) -> tuple[list[Member], list[Oddity]]:
    """Members without those that a later one of the same name replaces, as it does where tar unpacks them."""
    kept: dict[str, Member] = {}
    oddities = []
    for member in members:
        if member.name in kept:
            oddities.append(Oddity("duplicate", split, f"{archive.shown}/{member.name}"))
            del kept[member.name]  # so that the order is of those that count
        kept[member.name] = member
    return list(kept.values()), oddities


def images_only(members: Iterable[Member], archive: Archive, split: str) -> tuple[list[Member], list[Oddity]]:
    """Members that are images by their names; the others are passed over and told."""
    kept, oddities = [], []
    for member in members:
        if is_image(member.name):
            kept.append(member)
        else:
            oddities.append(Oddity("passed over", split, f"{archive.shown}/{member.name}"))
    return kept, oddities
