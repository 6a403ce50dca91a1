"""Resizing with torch: bilinear with antialiasing, as torchvision's RandomResizedCrop has it; on the CPU."""

from torch import Tensor
from torch.nn.functional import interpolate


def resize(window: Tensor, size: int, *, mirror: bool) -> Tensor:
    """Resize a window, (h, w, 3) uint8, to (size, size, 3) uint8, and mirror it.

    torch has fast code for this order of channels, with a batch before it.
    """
    channels_last = window[None].permute(0, 3, 1, 2)
    resized = interpolate(channels_last, size=(size, size), mode="bilinear", antialias=True)
    pixels = resized[0].permute(1, 2, 0)
    return pixels.flip(1) if mirror else pixels
