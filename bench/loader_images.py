"""The images that loaders are measured on: the sample, and made-up photographs; in memory, as shards and as files."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.functional import interpolate
from torchvision.io import encode_jpeg

from jobs import compose
from pipeline.config import Config
from pipeline.data.memory import SampleMemory
from pipeline.data.shard_writer import Sample, write_manifest, write_split
from pipeline.data.shards import read_index
from pipeline.data.staging import stage
from pipeline.evaluate import OneProcess

IMAGES_A_BATCH = 16
"""Of a worker in Exp. 5's first stage."""
PHOTOS = 128
PHOTO_WIDTH, PHOTO_HEIGHT, PHOTO_QUALITY = 500, 375, 90
PHOTO_CLASSES = 8
GRAIN = 48
"""Of 255: makes a file about as large as ImageNet's are, 110 kB in the mean."""


@dataclass(frozen=True)
class Images:
    """A data set in memory, with the run that reads it."""

    name: str
    memory: SampleMemory
    words: tuple[str, ...]
    updates_a_block: int

    def config(self, decoder: str) -> Config:
        return compose.compose(["exp=exp5", *self.words, f"data.decoder={decoder}"])


def sample() -> Images:
    """The sample's training images."""
    config = compose.compose(["exp=exp5"])
    size = config.data.image_size
    (memory,) = stage([read_index(Path(config.data.path), "train")], OneProcess())
    return Images(f"28x28 to {size}x{size}", memory, (), updates_a_block=400)


def photos(folder: Path) -> Images:
    """Images of smooth noise with some grain; in `folder` as shards, and in files/CLASS/ as files of their own."""
    images = [photo(number) for number in range(PHOTOS)]
    samples = [
        Sample(f"photo-{number:04d}", image, number % PHOTO_CLASSES, PHOTO_WIDTH, PHOTO_HEIGHT)
        for number, image in enumerate(images)
    ]
    splits = {"train": write_split(folder, "train", samples, samples_per_shard=PHOTOS // 2)}
    write_manifest(folder, name="photos", classes=PHOTO_CLASSES, splits=splits)
    for one in samples:
        path = folder / "files" / str(one.label) / f"{one.key}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(one.image)
    (memory,) = stage([read_index(folder, "train")], OneProcess())
    words = ("data=folder", f"data.path={json.dumps(str(folder))}")
    size_kb = sum(map(len, images)) / PHOTOS / 1000
    return Images(f"{PHOTO_WIDTH}x{PHOTO_HEIGHT} ({size_kb:.0f} kB) to 224x224", memory, words, updates_a_block=25)


def photo(seed: int) -> bytes:
    """One JPEG."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, PHOTO_HEIGHT // 16, PHOTO_WIDTH // 16, generator=generator) * (255 - GRAIN)
    smooth = interpolate(coarse, size=(PHOTO_HEIGHT, PHOTO_WIDTH), mode="bicubic")[0]
    grain = torch.rand(1, PHOTO_HEIGHT, PHOTO_WIDTH, generator=generator) * GRAIN
    pixels = (smooth + grain).clamp(0, 255).round().to(torch.uint8)
    return encode_jpeg(pixels, quality=PHOTO_QUALITY).numpy().tobytes()
