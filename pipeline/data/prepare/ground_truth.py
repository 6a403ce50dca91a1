"""The classes of ILSVRC2012's validation images, from any of the files that are about.

The development kit's own numbers (1 to 1000) are no labels: they follow neither the alphabet nor WordNet, and
`meta.mat` beside them says which class is meant.
"""

import io
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from pipeline.errors import UserError

DEVKIT = "ILSVRC2012_devkit_t12"
BY_ID = "ILSVRC2012_validation_ground_truth.txt"
BESIDE = (
    f"{DEVKIT}.tar.gz",
    f"{DEVKIT}/data/{BY_ID}",
    BY_ID,
    "LOC_val_solution.csv",
    "imagenet_2012_validation_synset_labels.txt",
)
"""What is looked for beside the tars, in this order: the kit, packed or unpacked, its file alone, Kaggle's, and the
list of TensorFlow's scripts."""

NUMBERED = re.compile(r"ILSVRC2012_val_(\d{8})")
WNID = re.compile(r"n\d{8}")
WOULD_DO = (
    f"{DEVKIT}.tar.gz beside the tars would do, or prepare.ground_truth=FILE with a WordNet id (n01440764) a line, in "
    "the order of the images, or lines of an image's name and its id"
)


def labels_of(names: Sequence[str], classes: Sequence[str], folder: Path, given: str | None) -> list[int]:
    """The labels of validation images, by their names (`ILSVRC2012_val_00000001.JPEG`).

    classes: WordNet ids, whose places are the labels. folder, given: as of `wnids_by_number`. Raises UserError.
    """
    truth, origin = wnids_by_number(folder, given)
    labels = {wnid: label for label, wnid in enumerate(classes)}
    found = []
    for name in names:
        number = NUMBERED.match(name.rpartition("/")[2])
        if number is None:
            raise UserError(f"{name} is not named as ILSVRC2012_val_00000001.JPEG, so its class is unknown")
        wnid = truth.get(int(number[1]))
        if wnid is None:
            raise UserError(f"{origin} has the classes of {len(truth):,} images, and none for {name}")
        if wnid not in labels:
            raise UserError(f"{origin} says that {name} is of class {wnid}, which has no training images")
        found.append(labels[wnid])
    return found


def wnids_by_number(folder: Path, given: str | None) -> tuple[dict[int, str], Path]:
    """The WordNet id of validation image 1, 2, …, and the file that says so.

    given: that file, where it is not beside the tars in `folder`. Raises UserError where there is none, or none that
    can be understood.
    """
    path = Path(given) if given else next((folder / name for name in BESIDE if (folder / name).exists()), None)
    if path is None:
        raise UserError(f"{folder} has no ground truth of the validation images; {WOULD_DO}")
    if not path.is_file():
        raise UserError(f"prepare.ground_truth={given}: no such file")
    if path.name.endswith((".tar.gz", ".tgz", ".tar")):
        return _of_kit(path), path
    lines = _lines(path.read_bytes(), path)
    if lines and all(len(words) == 1 and words[0].isdigit() for words in lines):
        return _by_id(lines, _meta_beside(path), path), path
    return _by_wnid(lines, path), path


def _of_kit(path: Path) -> dict[int, str]:
    """From the packed development kit, which is small."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                name = member.name.rpartition("/")[2]
                if name in (BY_ID, "meta.mat") and (file := tar.extractfile(member)) is not None:
                    found[name] = file.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    for name in (BY_ID, "meta.mat"):
        if name not in found:
            raise UserError(f"{path} has no {name} in it; {WOULD_DO}")
    return _by_id(_lines(found[BY_ID], path), io.BytesIO(found["meta.mat"]), path)


def _meta_beside(path: Path) -> IO[bytes]:
    for folder in (path.parent, path.parent / DEVKIT / "data"):
        if (folder / "meta.mat").is_file():
            return (folder / "meta.mat").open("rb")
    raise UserError(
        f"{path} holds the development kit's own numbers, which are no labels, and meta.mat, which tells them, is not "
        f"beside it; {WOULD_DO}"
    )


def _lines(content: bytes, path: Path) -> list[list[str]]:
    """The words of each line that has any; Kaggle's has a heading, and commas."""
    try:
        lines = [re.split(r"[,\s]+", line.strip()) for line in content.decode().splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise UserError(f"{path} is no text; {WOULD_DO}") from None
    return lines[1:] if lines and lines[0][0] == "ImageId" else lines


def _by_id(lines: list[list[str]], meta: IO[bytes], path: Path) -> dict[int, str]:
    """Lines of the kit's numbers, told by its meta.mat."""
    from scipy.io import loadmat  # takes a while, and only this needs it

    with meta:
        try:
            synsets = loadmat(meta, squeeze_me=True)["synsets"]
            rows = zip(synsets["ILSVRC2012_ID"], synsets["WNID"], synsets["num_children"], strict=True)
            wnids = {int(number): str(wnid) for number, wnid, children in rows if int(children) == 0}
        except Exception as error:  # scipy raises many kinds for a file that is none of MATLAB's
            raise UserError(f"meta.mat of {path} cannot be read: {error}") from None
    try:
        return {line: wnids[int(words[0])] for line, words in enumerate(lines, 1)}
    except (KeyError, ValueError) as error:
        raise UserError(f"{path}: {error} is no class of its meta.mat") from None


def _by_wnid(lines: list[list[str]], path: Path) -> dict[int, str]:
    """Lines of a WordNet id, or of a name and one."""
    found = {}
    for line, words in enumerate(lines, 1):
        named = NUMBERED.search(words[0])
        wnid = words[1] if named and len(words) > 1 else words[0]
        if not WNID.fullmatch(wnid):
            raise UserError(f"{path}, line {line}: {wnid!r} is no WordNet id; {WOULD_DO}")
        found[int(named[1]) if named else line] = wnid
    return found
