"""Small data sets for tests: random images as JPEGs in shards."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn.functional import interpolate
from torchvision.io import encode_jpeg

from pipeline.data.shard_writer import Sample, write_manifest, write_split


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


def photo(height: int, width: int, seed: int, channels: int = 3) -> NDArray[np.uint8]:
    """Smooth noise with some grain, about as hard to compress as a photograph: (height, width, channels)."""
    random = np.random.default_rng(seed)
    coarse = torch.from_numpy(random.uniform(0, 215, (1, channels, height // 8 + 2, width // 8 + 2)))
    smooth = interpolate(coarse, size=(height, width), mode="bicubic")[0].permute(1, 2, 0).numpy()
    return (smooth + random.uniform(0, 40, smooth.shape)).clip(0, 255).round().astype(np.uint8)


def encoded(pixels: NDArray[np.uint8], kind: str = "JPEG", mode: str | None = None, **options: Any) -> bytes:
    """`pixels`, (height, width, channels), written by Pillow."""
    stream = io.BytesIO()
    Image.fromarray(pixels.squeeze(), mode).save(stream, kind, **options)
    return stream.getvalue()


def photograph(height: int, width: int, seed: int) -> NDArray[np.uint8]:
    """Noise with the spectrum of photographs, amplitude 1/f (Field 1987), alike in all channels: (height, width, 3)."""
    random = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1
    noise = random.standard_normal((4, height, width))
    fields = np.fft.irfft2(np.fft.rfft2(noise) / frequency, (height, width))
    pixels = np.moveaxis(fields[:1] + 0.4 * fields[1:], 0, -1)
    return (128 + 55 * pixels / pixels.std()).clip(0, 255).round().astype(np.uint8)
