"""A made-up ILSVRC2012: its two tars and development kit, of small images of odd sizes, with all that is odd in it."""

import functools
import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

CLASSES = {"n01440764": 449, "n02105855": 7, "n02676566": 888, "n03000134": 3, "n09472597": 12}
"""WordNet ids, sorted, each with the number that the development kit gives it."""
INNER_NODE = ("n00001740", 1001)
"""A synset of the kit that is no class."""
IMAGES_A_CLASS = 50
VALIDATION_IMAGES = 40
ORIENTATION = 0x0112


def photo(seed: int, mode: str = "RGB") -> Image.Image:
    """Something like a photograph, of an odd size."""
    random = np.random.default_rng(seed)
    height, width = (int(side) for side in random.integers(33, 120, 2))
    coarse = random.integers(0, 256, (5, 6, 3), dtype=np.uint8)
    smooth = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    grain = random.integers(-12, 13, (height, width, 3))
    return Image.fromarray((np.asarray(smooth) + grain).clip(0, 255).astype(np.uint8)).convert(mode)


def encoded(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def turned(seed: int) -> bytes:
    """A JPEG whose EXIF says that it is to be turned by 90 degrees."""
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    return encoded(photo(seed), exif=exif)


@functools.cache
def odd_images() -> dict[str, tuple[str, bytes]]:
    """By its name in the training tar: what is odd, as the report calls it, and the bytes."""
    return {
        "n01440764/n01440764_9001.JPEG": ("gray", encoded(photo(9001, "L"))),
        "n01440764/n01440764_9002.JPEG": ("CMYK", encoded(photo(9002, "CMYK"))),
        "n02105855/n02105855_2933.JPEG": ("not a JPEG", encoded(photo(2933), "PNG")),
        "n02676566/n02676566_9003.JPEG": ("progressive", encoded(photo(9003), progressive=True)),
        "n02676566/n02676566_9004.JPEG": ("EXIF orientation", turned(9004)),
        "n03000134/n03000134_9005.JPEG": ("unreadable", encoded(photo(9005))[:-400]),
        "n03000134/n03000134_9006.JPEG": ("unreadable", b""),
        "n09472597/n09472597_9007.JPEG": ("unreadable", b"<html>404 Not Found</html>\n"),
        "n09472597/README": ("passed over", b"not an image"),
    }


REPLACED = "n03000134/n03000134_0.JPEG"
"""The name that stands twice in its tar; the second time with what `photo(8888)` gives."""


@functools.cache
def train_images() -> dict[str, list[tuple[str, bytes]]]:
    """Members of each class's tar, in order; one name stands twice."""
    members: dict[str, list[tuple[str, bytes]]] = {
        wnid: [
            (f"{wnid}_{number}.JPEG", encoded(photo(1000 * label + number), quality=90))
            for number in range(IMAGES_A_CLASS)
        ]
        for label, wnid in enumerate(CLASSES)
    }
    for name, (_, content) in odd_images().items():
        wnid, _, member = name.partition("/")
        members[wnid].insert(7, (member, content))
    wnid, _, member = REPLACED.partition("/")
    members[wnid].append((member, encoded(photo(8888))))
    return members


@functools.cache
def validation_images() -> dict[str, tuple[str, bytes]]:
    """By name: the class and the bytes."""
    wnids = list(CLASSES)
    return {
        f"ILSVRC2012_val_{number:08d}.JPEG": (wnids[(number * 7) % 5], encoded(photo(50_000 + number)))
        for number in range(1, VALIDATION_IMAGES + 1)
    }


def tar_of(members: Sequence[tuple[str, bytes]]) -> bytes:
    """A tar file, in GNU's format as ImageNet's are."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname = len(content), 1_340_000_000, "someone"
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def write_train(folder: Path) -> None:
    tars = {f"{wnid}.tar": tar_of(members) for wnid, members in train_images().items()}
    backwards = sorted(tars.items(), reverse=True)  # the order of classes is not that of their tars
    (folder / "ILSVRC2012_img_train.tar").write_bytes(tar_of(backwards))


def write_validation(folder: Path) -> None:
    images = sorted(validation_images().items(), reverse=True)
    (folder / "ILSVRC2012_img_val.tar").write_bytes(tar_of([(name, content) for name, (_, content) in images]))


def write_kit(folder: Path) -> None:
    """The development kit, packed as it is handed out."""
    kit = "ILSVRC2012_devkit_t12"
    files = [(f"{kit}/readme.txt", b"..."), *((f"{kit}/data/{name}", content) for name, content in kit_files().items())]
    path = folder / f"{kit}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def kit_files() -> Mapping[str, bytes]:
    """meta.mat, and the numbers of the validation images' classes."""
    fields = [
        ("ILSVRC2012_ID", object),
        ("WNID", object),
        ("words", object),
        ("gloss", object),
        ("num_children", object),
    ]
    rows = [(number, wnid, f"word {wnid}, other", "a thing", 0) for wnid, number in CLASSES.items()]
    rows.append((INNER_NODE[1], INNER_NODE[0], "entity", "all", 5))
    stream = io.BytesIO()
    savemat(stream, {"synsets": np.array(sorted(rows), dtype=fields).reshape(-1, 1)})
    numbers = "".join(f"{CLASSES[wnid]}\n" for _, (wnid, _) in sorted(validation_images().items()))
    return {"meta.mat": stream.getvalue(), "ILSVRC2012_validation_ground_truth.txt": numbers.encode()}


def write_all(folder: Path) -> None:
    """The two tars and the kit."""
    folder.mkdir(parents=True, exist_ok=True)
    write_train(folder)
    write_validation(folder)
    write_kit(folder)
