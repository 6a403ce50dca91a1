"""Decoding with torchvision, image by image: where DALI has no wheel, and to hold DALI against."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision.io import ImageReadMode, decode_image

from pipeline.data.decode import Decoded, UndecodableError, Views, too_small
from pipeline.data.resize import resize


class TorchvisionDecoder:
    """Decodes on the CPU: in the calling thread, or in `threads` of its own; torch holds no lock while it decodes."""

    def __init__(self, size: int, *, threads: int = 1) -> None:
        """size: height and width of the pixels that come out."""
        self._size = size
        self._threads = ThreadPoolExecutor(threads, "decoder") if threads > 1 else None

    def decode(self, views: Views) -> Decoded:
        size = self._size
        pixels = torch.zeros(len(views), size, size, 3, dtype=torch.uint8)
        faults = {}

        def decode_into(place: int, image: NDArray[np.uint8], window: Sequence[int], mirror: bool) -> None:
            try:
                pixels[place] = decode_one(image, window, mirror=mirror, size=size)
            except UndecodableError as error:
                faults[place] = str(error)

        of_image = range(len(views)), views.images, views.windows.tolist(), views.mirrors.tolist()
        for _ in (map if self._threads is None else self._threads.map)(decode_into, *of_image):
            pass
        return Decoded(pixels, dict(sorted(faults.items())))


def decode_one(image: NDArray[np.uint8], window: Sequence[int], *, mirror: bool, size: int) -> Tensor:
    """Decode one image.

    image: encoded bytes, (n,) uint8. window: top, left, height, width. Returns (size, size, 3) uint8.
    Raises UndecodableError where the bytes are no whole image or the window lies outside it.
    """
    try:
        pixels = decode_image(torch.from_numpy(image), mode=ImageReadMode.RGB)
    except RuntimeError as error:
        raise UndecodableError(str(error).splitlines()[0]) from None
    top, left, height, width = window
    if top + height > pixels.shape[1] or left + width > pixels.shape[2]:
        raise too_small(pixels.shape[2], pixels.shape[1])
    window_pixels = pixels[:, top : top + height, left : left + width].permute(1, 2, 0)
    return resize(window_pixels, size, mirror=mirror)
