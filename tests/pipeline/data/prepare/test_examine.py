"""An image is decoded fully, classified, and kept as it is unless training could not read it."""

import contextlib
import io
import random

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.io import ImageReadMode, decode_jpeg

from pipeline.data.prepare.examine import UnreadableError, examine
from tests.pipeline.data.prepare.ilsvrc import encoded, photo, turned


def kinds(content: bytes) -> list[str]:
    return [kind for kind, _ in examine(content).oddities]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (encoded(photo(1)), []),
        (encoded(photo(1, "L")), ["gray"]),
        (encoded(photo(1, "L"), progressive=True), ["gray", "progressive"]),
        (turned(1), ["EXIF orientation"]),
        (encoded(photo(1)) + b"trailing", []),
    ],
)
def test_what_training_can_read_is_kept_byte_for_byte(content: bytes, found: list[str]) -> None:
    examined = examine(content)
    assert examined.image == content
    assert (examined.width, examined.height) == photo(1).size
    assert kinds(content) == found


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        (photo(2, "CMYK"), "JPEG"),
        (photo(2), "PNG"),
        (photo(2, "RGBA"), "PNG"),
        (photo(2, "P"), "PNG"),
        (photo(2, "LA"), "PNG"),
        (photo(2), "BMP"),
        (photo(2), "WEBP"),
        (photo(2, "P"), "GIF"),
        (photo(2, "1"), "TIFF"),
    ],
)
def test_another_format_and_cmyk_become_rgb_jpegs_within_rounding(image: Image.Image, kind: str) -> None:
    content = encoded(image, kind)
    examined = examine(content)
    assert kinds(content) == ["CMYK" if image.mode == "CMYK" else "not a JPEG"]
    pixels = decode_jpeg(torch.frombuffer(bytearray(examined.image), dtype=torch.uint8), ImageReadMode.UNCHANGED)
    assert pixels.shape == (3, examined.height, examined.width)
    with Image.open(io.BytesIO(content)) as opened:
        expected = np.asarray(opened.convert("RGB"), np.int64)
    assert np.abs(pixels.permute(1, 2, 0).numpy() - expected).mean() < 1.5


def test_sixteen_bits_become_eight_by_their_upper_half() -> None:
    values = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    examined = examine(encoded(Image.fromarray(values), "PNG"))
    with Image.open(io.BytesIO(examined.image)) as opened:
        assert np.abs(np.asarray(opened.convert("L"), np.int64) - values // 256).max() <= 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"<html>", "it is no image: it begins with b'<html>'"),
        (encoded(photo(3))[:-200], "truncated"),
        (encoded(photo(3), "PNG")[:-200], "truncated"),
        (encoded(photo(3))[:4], "it is no image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "it is no image"),  # Pillow would start Ghostscript
    ],
)
def test_what_cannot_be_decoded_says_why(content: bytes, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        examine(content)


def test_damage_anywhere_is_unreadable_or_an_image_and_never_another_error() -> None:
    chance = random.Random(4)
    for source in (encoded(photo(4)), turned(4), encoded(photo(4), "PNG"), encoded(photo(4), "TIFF")):
        for _ in range(60):
            content = bytearray(source)
            for _ in range(5):
                content[chance.randrange(2, min(400, len(content)))] = chance.randrange(256)
            with contextlib.suppress(UnreadableError):
                assert examine(bytes(content)).image


@pytest.mark.parametrize(
    ("size", "expected"), [((500, 375), (341, 256)), ((375, 500), (256, 341)), ((300, 257), (299, 256))]
)
def test_resizing_brings_the_shorter_side_to_the_number(size: tuple[int, int], expected: tuple[int, int]) -> None:
    examined = examine(encoded(photo(5).resize(size)), 256)
    assert (examined.width, examined.height) == expected
    with Image.open(io.BytesIO(examined.image)) as opened:
        assert opened.size == expected


@pytest.mark.parametrize("size", [(256, 900), (200, 100)])
def test_resizing_leaves_smaller_images_as_they_are(size: tuple[int, int]) -> None:
    content = encoded(photo(6).resize(size))
    assert examine(content, 256).image == content


def test_a_resized_image_is_the_lanczos_one_within_the_codecs_rounding_and_does_not_turn() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encoded(photo(7).resize((400, 300)), exif=exif)
    examined = examine(content, 100)
    with Image.open(io.BytesIO(content)) as original, Image.open(io.BytesIO(examined.image)) as kept:
        expected = np.asarray(original.resize((133, 100), Image.Resampling.LANCZOS), np.int64)
        assert np.abs(np.asarray(kept, np.int64) - expected).mean() < 2
        assert not kept.getexif()
