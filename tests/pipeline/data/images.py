"""Small data sets for tests: random images as JPEGs in shards."""

from pathlib import Path

import torch
from torchvision.io import encode_jpeg

from pipeline.data.shards import Sample, write_manifest, write_split


def jpeg(seed: int, side: int = 28) -> bytes:
    """A gray JPEG of noise."""
    pixels = torch.randint(0, 256, (1, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    return encode_jpeg(pixels, quality=90).numpy().tobytes()


def write_images(
    folder: Path, *, train: list[bytes], validation: list[bytes], classes: int = 10, side: int = 28
) -> None:
    """Write a data set whose sample i of a split has the label i modulo `classes`."""
    folder.mkdir(parents=True, exist_ok=True)
    splits = {}
    for split, images in (("train", train), ("validation", validation)):
        samples = [Sample(f"{split}-{i:04d}", image, i % classes, side, side) for i, image in enumerate(images)]
        splits[split] = write_split(folder, split, samples, samples_per_shard=16)
    write_manifest(folder, name="test", classes=classes, splits=splits)
