"""Finding the files below a folder. Links are followed, each folder once; what is left out is told."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pipeline.data.prepare.source import NO_SPLIT, Oddity, StoredImage, is_image
from pipeline.data.prepare.split_names import visible_folders
from pipeline.wording import counted


def images_below(root: Path, folder: Path, split: str, label: int) -> tuple[list[StoredImage], list[Oddity]]:
    """The images in a folder and in folders below it, sorted, and what else there is.

    root: what their names start below. Raises OSError for what cannot be read, which would be left out without a word.
    """
    images, oddities = [], []
    for path, why in _walk(folder, {folder.resolve()}):
        name = path.relative_to(root).as_posix()
        if why:
            oddities.append(Oddity("passed over", split, name, why))
        elif not is_image(name):
            oddities.append(Oddity("passed over", split, name))
        elif not stat.S_ISREG((facts := path.stat()).st_mode):
            oddities.append(Oddity("passed over", split, name, "a pipe, socket or device"))
        else:
            images.append(StoredImage(str(path), 0, facts.st_size, name, label, facts.st_mtime_ns))
    return sorted(images, key=lambda image: image.name), sorted(oddities, key=lambda oddity: oddity.name)


def loose_files(root: Path, folder: Path, split: str, without: tuple[str, ...] = ()) -> list[Oddity]:
    """The files beside the class folders, which belong to no class. without: those of use."""
    return [
        Oddity("passed over", split, path.relative_to(root).as_posix(), "in no class folder")
        for path in sorted(folder.iterdir())
        if not path.is_dir() and path.name not in without and not path.name.startswith(".")
    ]


def other_folders(root: Path, taken: set[Path], why: str) -> list[Oddity]:
    """The folders beside those that are taken, with how many images are in them; those without are not told."""
    found = []
    for folder in visible_folders(root):
        if folder in taken:
            continue
        count = sum(is_image(path.name) for path, _ in _walk(folder, {folder.resolve()}))
        if count:
            found.append(
                Oddity("passed over", NO_SPLIT, folder.name, f"a folder with {counted(count, 'image')}, {why}")
            )
    return found


def _walk(folder: Path, seen: set[Path]) -> Iterator[tuple[Path, str]]:
    """Each file, and why a folder is left out, else an empty text. seen: real paths of folders, which grow."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    here = folder.resolve()
    for entry in found:
        path = Path(entry.path)
        if not entry.is_dir():
            yield path, ""
            continue
        real = path.resolve() if entry.is_symlink() else here / entry.name
        if real in seen or real in here.parents:
            yield path, "a link to a folder above it, or to one that was seen already"
        else:
            seen.add(real)
            yield from _walk(path, seen)
