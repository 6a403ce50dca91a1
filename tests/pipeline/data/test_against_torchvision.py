"""Pixels and windows against torchvision's and Pillow's own: RandomResizedCrop, Resize and CenterCrop."""

import io
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy import stats
from torch import Tensor
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms.v2 import functional as torchvision

from pipeline.config.schema import WindowConfig
from pipeline.data import order
from pipeline.data.decode import Decoder, Views
from pipeline.data.decode_dali import TORCH_RESIZES_FROM, DaliDecoder
from pipeline.data.decode_torchvision import TorchvisionDecoder
from tests.pipeline.data.images import encoded, photograph

HEIGHT, WIDTH = 375, 500
IMAGENET = WindowConfig(area=[0.08, 1.0], ratio=[3 / 4, 4 / 3])
COUNT = 12
SMALL, LARGE = 48, 224
"""Sizes that DALI and that torch resizes to."""
DECODERS: dict[str, Callable[[int], Decoder]] = {"dali": DaliDecoder, "torchvision": TorchvisionDecoder}

Pixels = NDArray[np.float64]


def whole(image: bytes) -> Image.Image:
    return Image.open(io.BytesIO(image)).convert("RGB")


def tensor(image: bytes) -> Tensor:
    """(3, height, width) uint8."""
    return torch.from_numpy(np.asarray(whole(image)).copy()).permute(2, 0, 1)


def floats(pixels: Tensor) -> Pixels:
    """(…, 3, h, w) uint8 to (…, h, w, 3)."""
    return pixels.movedim(-3, -1).numpy().astype(np.float64)


@pytest.fixture(scope="module")
def image() -> bytes:
    return encoded(photograph(HEIGHT, WIDTH, 1), quality=90)


@pytest.fixture(scope="module")
def windows() -> NDArray[np.int64]:
    samples = np.arange(COUNT)
    return order.windows(0, 0, samples, np.full(COUNT, WIDTH), np.full(COUNT, HEIGHT), IMAGENET)


def decoded(decoder: str, size: int, images: list[bytes], windows: NDArray[np.int64]) -> Pixels:
    """(n, size, size, 3), not mirrored."""
    arrays = [np.frombuffer(bytearray(image), np.uint8) for image in images]
    found = DECODERS[decoder](size).decode(Views(arrays, windows, np.zeros(len(images), bool)))
    assert found.faults == {}
    return found.pixels.numpy().astype(np.float64)


def torchvisions(image: bytes, windows: NDArray[np.int64], size: int) -> Pixels:
    of_windows = [
        torchvision.resized_crop(tensor(image), *window, size=[size, size], antialias=True)
        for window in windows.tolist()
    ]
    return floats(torch.stack(of_windows))


def pillows(image: bytes, windows: NDArray[np.int64], size: int) -> Pixels:
    boxes = [(left, top, left + width, top + height) for top, left, height, width in windows.tolist()]
    resized = [whole(image).crop(box).resize((size, size), Image.Resampling.BILINEAR) for box in boxes]
    return np.stack([np.asarray(one) for one in resized]).astype(np.float64)


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_window_of_a_photograph_is_torchvisions_and_pillows(
    decoder: str, size: int, image: bytes, windows: NDArray[np.int64]
) -> None:
    assert SMALL < TORCH_RESIZES_FROM <= LARGE
    found = decoded(decoder, size, [image] * COUNT, windows)
    dali_resizes = decoder == "dali" and size == SMALL
    for expected, limit in (
        (torchvisions(image, windows, size), 0.5 if dali_resizes else 0),
        (pillows(image, windows, size), 0.5),
    ):
        assert np.abs(found - expected).mean(axis=(1, 2, 3)).max() <= limit


def shift(found: Pixels, expected: Pixels) -> NDArray[np.float64]:
    """By how many pixels, down and to the right, `found` lies off `expected`, by least squares on its gradients."""
    gray = expected.mean(-1)
    gradients = np.stack([-axis.ravel() for axis in np.gradient(gray)], axis=1)
    return np.linalg.lstsq(gradients, (found.mean(-1) - gray).ravel(), rcond=None)[0]


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("decoder", DECODERS)
def test_no_difference_is_geometric(decoder: str, size: int, image: bytes, windows: NDArray[np.int64]) -> None:
    theirs = torchvisions(image, windows, size)
    moved = np.roll(theirs[0], 1, axis=0)[2:-2, 2:-2]  # the measure sees a pixel where there is one
    assert shift(moved, theirs[0][2:-2, 2:-2])[0] > 0.2
    for found, expected in zip(decoded(decoder, size, [image] * COUNT, windows), theirs, strict=True):
        assert np.abs(shift(found, expected)).max() < 0.01
        whole_pixels = [
            np.abs(np.roll(found, (down, right), axis=(0, 1)) - expected)[2:-2, 2:-2].mean()
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
        ]
        assert np.argmin(whole_pixels) == 4  # (0, 0)


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_ramp_stays_where_it_was(decoder: str, size: int) -> None:
    # Red is the column and green the row, so a value is a place: pixel i's is top + (i + 1/2) height/size - 1/2.
    ramp = np.zeros((250, 250, 3), np.uint8)
    ramp[..., 0], ramp[..., 1] = np.arange(250)[None, :], np.arange(250)[:, None]
    windows = np.array([[0, 0, 250, 250], [10, 37, 200, 113], [140, 3, 90, 230]])
    for found, (top, left, height, width) in zip(
        decoded(decoder, size, [encoded(ramp, "PNG")] * len(windows), windows), windows.tolist(), strict=True
    ):
        rows = top + (np.arange(size) + 0.5) * height / size - 0.5
        columns = left + (np.arange(size) + 0.5) * width / size - 0.5
        inside = slice(3, -3)  # at the rim the filter is cut off
        assert np.abs(found[:, size // 2, 1] - rows)[inside].max() <= 1
        assert np.abs(found[size // 2, :, 0] - columns)[inside].max() <= 1
        assert np.abs((found[:, size // 2, 1] - rows)[inside].mean()) < 0.1
        assert np.abs((found[size // 2, :, 0] - columns)[inside].mean()) < 0.1


@pytest.mark.parametrize(("height", "width"), [(400, 600), (600, 400), (512, 512), (256, 384)])
@pytest.mark.parametrize("decoder", DECODERS)
def test_validation_sees_what_resize_256_and_centre_crop_224_leave(decoder: str, height: int, width: int) -> None:
    # Sides at which 224 of 256 are whole pixels on both axes. Elsewhere the region is the same but for rounding, below.
    image = encoded(photograph(height, width, 2), quality=90)
    window = order.central_windows(np.array([width]), np.array([height]), 0.875)
    (found,) = decoded(decoder, LARGE, [image], window)
    resized = torchvision.resize(tensor(image), [256], antialias=True)
    theirs = floats(torchvision.center_crop(resized, [224]))
    pillow = torchvision.center_crop(torchvision.resize(whole(image), [256]), [224])
    assert np.abs(found - theirs).mean() <= 0.5
    assert np.abs(found - np.asarray(pillow)).mean() <= 0.5


def test_validations_window_is_that_region_but_for_rounding() -> None:
    random = np.random.default_rng(0)
    for height, width in random.integers(64, 2000, (300, 2)).tolist():
        top, left, side, _ = order.central_windows(np.array([width]), np.array([height]), 0.875)[0].tolist()
        scale = min(height, width) / 256
        # theirs is centred too; it rounds its corner to whole pixels of the resized image, ours to pixels of the stored
        assert abs(side - 224 * scale) <= 0.5
        assert abs(top + side / 2 - height / 2) <= 0.5
        assert abs(left + side / 2 - width / 2) <= 0.5


DRAWS = 4000
SIZES = {"landscape": (375, 500), "portrait": (640, 480), "panorama": (100, 400)}


def drawn_by_torchvision(height: int, width: int) -> NDArray[np.int64]:
    """(DRAWS, 4): top, left, height, width."""
    image = torch.empty(3, height, width, device="meta")
    torch.manual_seed(0)
    draws = [RandomResizedCrop.get_params(image, list(IMAGENET.area), list(IMAGENET.ratio)) for _ in range(DRAWS)]
    return np.array(draws)


def drawn_by_us(height: int, width: int) -> NDArray[np.int64]:
    samples = np.arange(DRAWS)
    return order.windows(0, 0, samples, np.full(DRAWS, width), np.full(DRAWS, height), IMAGENET)


def facts(windows: NDArray[np.int64], height: int, width: int) -> dict[str, NDArray[np.float64]]:
    """What windows are compared by."""
    top, left, h, w = windows.T
    rows, columns = height - h > 0, width - w > 0  # else there is one place
    return {
        "area share": h * w / (height * width),
        "log ratio": np.log(w / h),
        "height": h / height,
        "place of top": top[rows] / (height - h[rows]),
        "place of left": left[columns] / (width - w[columns]),
        "middle": (top + h / 2) / height,
    }


@pytest.mark.parametrize("name", SIZES)
def test_windows_are_distributed_as_torchvisions(name: str) -> None:
    ours, theirs = drawn_by_us(*SIZES[name]), drawn_by_torchvision(*SIZES[name])
    found, expected = facts(ours, *SIZES[name]), facts(theirs, *SIZES[name])
    for fact, values in expected.items():
        assert stats.ks_2samp(found[fact], values).pvalue > 0.001, fact


def test_as_many_windows_as_torchvisions_fall_back_to_the_central_one() -> None:
    height, width = 100, 900  # few windows fit; what is left is 100 x 133, (900 - 133) // 2 = 383 from the left
    fell_back = [
        int((draws == [0, 383, 100, 133]).all(axis=1).sum())
        for draws in (drawn_by_us(height, width), drawn_by_torchvision(height, width))
    ]
    assert min(fell_back) > 100
    table = [[count, DRAWS - count] for count in fell_back]
    assert stats.chi2_contingency(table).pvalue > 0.001


def test_the_comparison_of_windows_sees_another_distribution() -> None:
    ours = facts(drawn_by_us(375, 500), 375, 500)
    samples = np.arange(DRAWS)
    other = WindowConfig(area=[0.15, 1.0], ratio=[3 / 4, 4 / 3])
    others = order.windows(1, 0, samples, np.full(DRAWS, 500), np.full(DRAWS, 375), other)
    assert stats.ks_2samp(ours["area share"], facts(others, 375, 500)["area share"]).pvalue < 0.001
