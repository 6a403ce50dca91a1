"""Decoding with torchvision: JPEG or PNG bytes through a window to pixels.

The order of operations is torchvision's RandomResizedCrop: decode, cut the window, resize bilinearly with antialiasing.
EXIF orientation is left alone, as Pillow and torchvision leave it.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate
from torchvision.io import ImageReadMode, decode_image


class UndecodableError(Exception):
    """An image that cannot be decoded; the caller knows which it is."""


def decode(image: NDArray[np.uint8], window: Sequence[int], *, mirror: bool, size: int) -> Tensor:
    """Decode one image.

    image: encoded bytes, (n,) uint8. window: top, left, height, width. Returns (1, 3, size, size) uint8.
    Raises UndecodableError where the bytes are no whole image or the window lies outside it.
    """
    try:
        pixels = decode_image(torch.from_numpy(image), mode=ImageReadMode.RGB)
    except RuntimeError as error:
        raise UndecodableError(str(error).splitlines()[0]) from None
    top, left, height, width = window
    if top + height > pixels.shape[1] or left + width > pixels.shape[2]:
        raise UndecodableError(f"is {pixels.shape[2]}x{pixels.shape[1]} pixels, smaller than its index says")
    cut = pixels[None, :, top : top + height, left : left + width]
    resized = interpolate(cut, size=(size, size), mode="bilinear", antialias=True)
    return resized.flip(-1) if mirror else resized
