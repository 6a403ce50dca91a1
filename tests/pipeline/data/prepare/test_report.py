"""What the report says of a source."""

import pytest

from pipeline.data.prepare.report import emptied
from pipeline.data.prepare.source import Oddity, Source, StoredImage

CLASSES = ["ant", "bee", "cat"]


def source(*labelled: tuple[str, int]) -> Source:
    images = [StoredImage("", 0, 1, name, label, 0) for name, label in labelled]
    return Source("class folders", "", CLASSES, {"train": images, "validation": []})


def unreadable(*names: str, split: str = "train") -> list[Oddity]:
    return [Oddity("unreadable", split, name) for name in names]


IMAGES = ("ant/1", 0), ("ant/2", 0), ("bee/1", 1), ("cat/1", 2)


@pytest.mark.parametrize(
    ("oddities", "line"),
    [
        (unreadable("ant/1"), ""),
        (unreadable("bee/1"), "no image to train on is left of 1 class: bee"),
        (unreadable("ant/1", "ant/2", "cat/1"), "no image to train on is left of 2 classes: ant, cat"),
        (unreadable("bee/1", split="validation"), ""),
        ([Oddity("gray", "train", "bee/1")], ""),
    ],
)
def test_classes_that_lose_all_their_images_are_named(oddities: list[Oddity], line: str) -> None:
    assert emptied(source(*IMAGES), oddities) == line
