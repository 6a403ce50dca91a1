"""Telling what a source is by looking at it."""

from concurrent.futures import Executor
from itertools import islice
from pathlib import Path, PurePosixPath

from pipeline.data.prepare import class_folders, imagenet, webdataset_tars
from pipeline.data.prepare.archive import Archive
from pipeline.data.prepare.ground_truth import BESIDE, NUMBERED
from pipeline.data.prepare.options import Options
from pipeline.data.prepare.source import NO_SPLIT, TRAIN, Oddity, Source, is_image
from pipeline.data.prepare.split_names import split_folders, with_splits
from pipeline.data.prepare.walk import other_folders
from pipeline.errors import UserError

WANTED = (
    f"a folder with {imagenet.TRAIN_TAR} and {imagenet.VALIDATION_TAR}, with train/CLASS/ and val/CLASS/ of images, "
    "with CLASS/ of images, or with WebDataset tars"
)


def read_source(paths: list[Path], options: Options, pool: Executor) -> Source:
    """All images of a folder, or of tar files. Raises UserError for what is none of the kinds."""
    for path in paths:
        if not path.exists():
            raise UserError(f"{path}: no such file or folder; FROM is {WANTED}")
    folder = paths[0] if len(paths) == 1 and paths[0].is_dir() else None
    tars = [path for path in paths if path.is_file()] if folder is None else _tars(folder)
    if len(tars) < len(paths) and folder is None:
        raise UserError(f"FROM is one folder, or tar files; {paths[0]} and others are a mixture")
    if folder is not None and not tars:
        return _of_folders(folder, options, pool)
    kinds = {path: _kind(path) for path in tars}
    source = _of_tars(kinds, (folder or tars[0].parent).resolve().name, options, pool)
    if folder is not None:
        source.oddities += _beside_tars(folder)
    return source


def _of_tars(kinds: dict[Path, str], name: str, options: Options, pool: Executor) -> Source:
    if "class tars" in kinds.values() or "validation" in kinds.values():
        return imagenet.read(
            _only("class tars", imagenet.TRAIN_TAR, kinds),
            _only("validation", imagenet.VALIDATION_TAR, kinds),
            options.ground_truth,
            pool,
        )
    if options.ground_truth:
        raise UserError(f"prepare.ground_truth={options.ground_truth}: WebDataset tars have labels of their own")
    return webdataset_tars.read(list(kinds), name, pool)


def _beside_tars(folder: Path) -> list[Oddity]:
    """Images that lie beside tars, which alone are taken."""
    loose = [path.name for path in sorted(folder.iterdir()) if is_image(path.name) or _compressed(path)]
    return [
        *other_folders(folder, set(), "beside tars"),
        *(Oddity("passed over", NO_SPLIT, name, "beside tars") for name in loose if name not in BESIDE),
    ]


def _of_folders(folder: Path, options: Options, pool: Executor) -> Source:
    top = split_folders(folder)[TRAIN]
    if not class_folders.class_names(top):
        packed = [path.name for place in with_splits(folder) for path in sorted(place.iterdir()) if _compressed(path)]
        if packed:
            raise UserError(
                f"{folder} holds compressed tars, as {packed[0]}, in which no image can be sought; take the "
                "compression off first (gunzip leaves a .tar)"
            )
        raise UserError(f"{folder} holds nothing to prepare; FROM is {WANTED}")
    return class_folders.read(folder, options.ground_truth, pool)


def _tars(folder: Path) -> list[Path]:
    """The tars in a folder and in those of its splits; ImageNet's two alone where it has them."""
    both = [folder / imagenet.TRAIN_TAR, folder / imagenet.VALIDATION_TAR]
    if any(path.exists() for path in both):
        for path in both:
            if not path.is_file():
                raise UserError(f"{path}: no such file, though the other of ImageNet's two tars is there")
        return both
    found = sorted(path for place in with_splits(folder) for path in place.glob("*.tar"))
    return [path for path in found if path.is_file() and not path.name.startswith(".")]


def _compressed(path: Path) -> bool:
    return path.name.lower().endswith((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"))


def _kind(path: Path) -> str:
    """What a tar is by its first two files: `class tars`, `validation` or `webdataset`, whose second is a label."""
    names = [PurePosixPath(member.name).name for member in islice(Archive(path, shown=path.name).walk(), 2)]
    if not names:
        raise UserError(f"{path} has no file in it")
    if names[0].endswith(".tar"):
        return "class tars"
    if all(is_image(name) and NUMBERED.match(name) for name in names):
        return "validation"
    return "webdataset"


def _only(kind: str, usual: str, kinds: dict[Path, str]) -> Path:
    """The one tar of a kind."""
    found = [path for path, its in kinds.items() if its == kind]
    if len(found) != 1:
        there = ", ".join(path.name for path in found) or "none"
        raise UserError(f"ImageNet needs one tar as {usual}, and there is {there}; name both tars in FROM")
    return found[0]
