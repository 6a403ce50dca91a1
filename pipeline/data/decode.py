"""Decoding: encoded images, windows and mirrors in; pixels out. The contract of a decoder, and the choice of one.

A decoder cuts the window out of the decoded image, resizes it bilinearly with antialiasing (torchvision's
RandomResizedCrop does the same) and mirrors it. EXIF orientation is left alone, as Pillow and torchvision leave it.
An image's pixels depend on the image, its window and its mirror alone: not on the batch it comes in, not on threads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.config.schema import DataConfig
from pipeline.errors import UserError


@dataclass(frozen=True)
class Views:
    """Encoded images and what is to be seen of each."""

    images: Sequence[NDArray[np.uint8]]
    """n arrays of encoded bytes."""
    windows: NDArray[np.int64]
    """(n, 4): top, left, height, width in pixels of the image."""
    mirrors: NDArray[np.bool_]
    """(n,)."""

    def __len__(self) -> int:
        return len(self.images)

    def parts(self, most: int, most_pixels: int | None = None) -> "Iterator[Views]":
        """The same in order, at most `most` at a time; their windows have at most `most_pixels`, but for one alone."""
        pixels = np.cumsum(self.windows[:, 2] * self.windows[:, 3])
        first = 0
        while first < len(self):
            end = min(first + most, len(self))
            if most_pixels is not None:
                before = pixels[first - 1] if first else 0
                end = min(end, max(first + 1, int(np.searchsorted(pixels, before + most_pixels, side="right"))))
            yield Views(self.images[first:end], self.windows[first:end], self.mirrors[first:end])
            first = end


@dataclass(frozen=True)
class Decoded:
    """What became of n views."""

    pixels: Tensor
    """(n, size, size, 3) uint8, contiguous; of no meaning where an image could not be decoded."""
    faults: dict[int, str] = field(default_factory=dict)
    """Why an image could not be decoded, by its place."""


class Decoder(Protocol):
    """Decodes any number of views but none. Several threads may call it."""

    def decode(self, views: Views) -> Decoded: ...


class UndecodableError(Exception):
    """An image that cannot be decoded: why, not which."""


def too_small(width: int, height: int) -> UndecodableError:
    """The error of an image of this size, in pixels, that does not hold its window."""
    return UndecodableError(f"is {width}x{height} pixels, smaller than its index says")


def build(config: DataConfig, device: torch.device | None = None, *, largest: tuple[int, int] | None = None) -> Decoder:
    """The decoder that data.decoder names.

    device: the worker's, for data.decode_on=cuda. largest: width and height of the data set's largest image, for the
    memory that decoding on a GPU sets aside.
    Raises UserError where DALI is asked for and absent: pixels differ within rounding, so a run never takes another
    decoder than the one it was given.
    """
    if config.decoder == "torchvision":
        from pipeline.data.decode_torchvision import TorchvisionDecoder

        return TorchvisionDecoder(config.image_size, threads=config.decoder_threads)
    try:
        from pipeline.data.decode_dali import DaliDecoder  # not at the top: it may be absent
    except (ImportError, OSError) as error:
        raise UserError(
            f"data.decoder=dali, but nvidia-dali cannot be imported ({str(error).splitlines()[0]}); "
            "install it or take data.decoder=torchvision"
        ) from None
    return DaliDecoder(
        config.image_size,
        threads=config.decoder_threads,
        device=device if config.decode_on == "cuda" else None,
        largest=largest,
    )
