"""What a source of images is: where each image lies, its label, and what was odd about it."""

from dataclasses import dataclass, field
from pathlib import PurePosixPath

TRAIN, VALIDATION = "train", "validation"
NO_SPLIT = "-"
"""Stands for the split of what is of none."""

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


@dataclass(frozen=True, slots=True)
class StoredImage:
    """One image: `size` bytes from `offset` on of `file`."""

    file: str
    offset: int
    size: int
    name: str
    """As a person finds it: a path below the source, archives as folders (`n01440764.tar/n01440764_18.JPEG`)."""
    label: int
    changed_ns: int
    """When its file was changed last."""


@dataclass(frozen=True)
class Oddity:
    """Something about one image that a person should know."""

    kind: str
    """A key of report.KINDS."""
    split: str
    name: str
    detail: str = ""


@dataclass
class Source:
    """All that there is to prepare."""

    kind: str
    """`ILSVRC2012 tars`, `class folders` or `WebDataset tars`."""
    name: str
    classes: list[str]
    """Names; a label is a place in this list."""
    images: dict[str, list[StoredImage]]
    """By split."""
    oddities: list[Oddity] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Lines that a person should read before anything is packed."""


def is_image(name: str) -> bool:
    """Whether a name is an image's."""
    return name.lower().endswith(IMAGE_ENDINGS) and not PurePosixPath(name).name.startswith(".")
