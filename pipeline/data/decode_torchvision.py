"""Decoding with torchvision, image by image: where DALI has no wheel, and to hold DALI against."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate
from torchvision.io import ImageReadMode, decode_image

from pipeline.data.decode import Decoded, UndecodableError, Views, too_small


class TorchvisionDecoder:
    """Decodes in the calling thread, on the CPU."""

    def __init__(self, size: int) -> None:
        """size: height and width of the pixels that come out."""
        self._size = size

    def decode(self, views: Views) -> Decoded:
        found, faults = [], {}
        of_image = zip(views.images, views.windows.tolist(), views.mirrors.tolist(), strict=True)
        for place, (image, window, mirror) in enumerate(of_image):
            try:
                found.append(decode_one(image, window, mirror=mirror, size=self._size))
            except UndecodableError as error:
                found.append(torch.zeros(1, 3, self._size, self._size, dtype=torch.uint8))
                faults[place] = str(error)
        return Decoded(torch.cat(found).permute(0, 2, 3, 1).contiguous(), faults)


def decode_one(image: NDArray[np.uint8], window: Sequence[int], *, mirror: bool, size: int) -> Tensor:
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
        raise too_small(pixels.shape[2], pixels.shape[1])
    cut = pixels[None, :, top : top + height, left : left + width]
    resized = interpolate(cut, size=(size, size), mode="bilinear", antialias=True)
    return resized.flip(-1) if mirror else resized
