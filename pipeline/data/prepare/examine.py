"""One image: decode it fully, say what is odd about it, and give the bytes to keep.

A JPEG that is gray or RGB stays byte for byte. A CMYK one, and another format (whatever its name says), becomes an RGB
JPEG, as the usual scripts for ImageNet do with its 22 CMYK images and its one PNG. None is turned by its EXIF
orientation: the pipeline's decoders do not turn either, and the well-known accuracies are of images as they lie.
"""

import io
import warnings
from dataclasses import dataclass

import numpy as np
from PIL import Image

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
"""Of Pillow's, those that are images and start no other program."""

CONVERTED_QUALITY = 100
"""Of a converted image, with 4:4:4: nothing but rounding is lost. As TensorFlow's scripts for ImageNet have it."""
RESIZED_QUALITY = 95
"""Of a resized image, with 4:4:4: Pillow's highest before sizes grow without a gain that can be seen."""
ORIENTATION = 0x0112


class UnreadableError(Exception):
    """Bytes that cannot be decoded: why."""


@dataclass(frozen=True)
class Examined:
    """What to keep of an image."""

    image: bytes
    """A JPEG."""
    width: int
    height: int
    oddities: tuple[tuple[str, str], ...]
    """Kinds, as in report.KINDS, each with its detail."""


def examine(content: bytes, shorter_side: int | None = None) -> Examined:
    """Decode an image and make of it what is to be kept.

    shorter_side: pixels to which the shorter side of a larger image is brought. Raises UnreadableError.
    """
    if not content:
        raise UnreadableError("it is empty")
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(content), formats=FORMATS) as image:
            image.load()
            return _examined(image, content, shorter_side)
    except Image.UnidentifiedImageError:
        raise UnreadableError(f"it is no image: it begins with {content[:8]!r}") from None
    except MemoryError:
        raise
    except Exception as error:  # Pillow's readers raise many kinds for broken files
        raise UnreadableError(str(error) or type(error).__name__) from None


def _examined(image: Image.Image, content: bytes, shorter_side: int | None) -> Examined:
    oddities = tuple(_oddities(image))
    width, height = _size(image.width, image.height, shorter_side)
    as_it_is = image.format in ("JPEG", "MPO") and image.mode in ("L", "RGB")
    if as_it_is and (width, height) == image.size:
        return Examined(content, width, height, oddities)
    pixels = image if as_it_is else _rgb(image)
    if (width, height) == image.size:
        return Examined(_jpeg(pixels, CONVERTED_QUALITY), width, height, oddities)
    resized = pixels.resize((width, height), Image.Resampling.LANCZOS)
    return Examined(_jpeg(resized, RESIZED_QUALITY), width, height, oddities)


def _oddities(image: Image.Image) -> list[tuple[str, str]]:
    found = []
    if image.format not in ("JPEG", "MPO"):
        found.append(("not a JPEG", f"{image.format}, {image.mode}"))
    elif image.mode == "CMYK":
        found.append(("CMYK", ""))
    elif image.mode == "L":
        found.append(("gray", ""))
    if image.info.get("progressive"):
        found.append(("progressive", ""))
    if (orientation := _orientation(image)) > 1:
        found.append(("EXIF orientation", f"orientation {orientation}"))
    return found


def _orientation(image: Image.Image) -> int:
    """1 to 8; 1, which is upright, where there is none or it cannot be read."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # of damaged EXIF, which no decoder of ours reads
        return 1


def _size(width: int, height: int, shorter_side: int | None) -> tuple[int, int]:
    """Of what is kept: smaller images are not blown up."""
    shorter = min(width, height)
    if shorter_side is None or shorter <= shorter_side:
        return width, height
    return round(width * shorter_side / shorter), round(height * shorter_side / shorter)


def _rgb(image: Image.Image) -> Image.Image:
    """Three channels of 8 bits. Transparency is dropped, as the usual decoders drop it."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    return image.convert("RGB")


def _jpeg(image: Image.Image, quality: int) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=quality, subsampling=0)
    return stream.getvalue()
