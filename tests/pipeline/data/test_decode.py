"""Decoders: the right pixels of every kind of image, in any batch; Pillow and torchvision say what is right."""

import io
import itertools
import sys
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms.v2.functional import resized_crop

from jobs.compose import compose
from pipeline.data import decode, decode_dali, order
from pipeline.data.decode import Views
from pipeline.data.decode_dali import DaliDecoder
from pipeline.data.decode_torchvision import TorchvisionDecoder
from pipeline.errors import UserError
from tests.pipeline.data.images import encoded, photo

SIZE = 32
DECODERS: dict[str, Any] = {"dali": DaliDecoder, "torchvision": TorchvisionDecoder}


def exif(orientation: int) -> Image.Exif:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


KINDS = {
    "4:4:4": encoded(photo(SIZE, SIZE, 1), quality=90, subsampling=0),
    "4:2:0": encoded(photo(SIZE, SIZE, 2), quality=90, subsampling=2),
    "gray": encoded(photo(SIZE, SIZE, 3, channels=1)),
    "progressive": encoded(photo(SIZE, SIZE, 4), progressive=True),
    "turned by EXIF": encoded(photo(SIZE, SIZE, 5), exif=exif(6)),
    "PNG in disguise": encoded(photo(SIZE, SIZE, 6), "PNG"),
    "CMYK": encoded(photo(SIZE, SIZE, 7, channels=4), mode="CMYK"),
}
ROUNDING = {"CMYK": 1}
"""DALI turns CMYK into RGB with other rounding than Pillow."""


def views(images: list[bytes], windows: Any, mirrors: Any = None) -> Views:
    arrays = [np.frombuffer(bytearray(image), np.uint8) for image in images]
    off = np.zeros(len(images), dtype=bool)
    return Views(arrays, np.array(windows, dtype=np.int64), off if mirrors is None else np.array(mirrors))


def pillow(image: bytes) -> NDArray[np.uint8]:
    """(height, width, 3), as stored."""
    return np.asarray(Image.open(io.BytesIO(image)).convert("RGB"))


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_image_is_pillows(kind: str, decoder: str) -> None:
    decoded = DECODERS[decoder](SIZE).decode(views([KINDS[kind]], [[0, 0, SIZE, SIZE]]))
    assert decoded.faults == {}
    difference = np.abs(decoded.pixels[0].numpy().astype(int) - pillow(KINDS[kind]).astype(int))
    assert difference.max() <= ROUNDING.get(kind, 0)


@pytest.mark.parametrize(("decoder", "limit"), [("dali", 0.5), ("torchvision", 0)])
def test_a_window_is_torchvisions_resized_crop(decoder: str, limit: float) -> None:
    image = encoded(photo(60, 90, 8), quality=90)
    whole = torch.from_numpy(pillow(image).copy()).permute(2, 0, 1)
    sizes = np.full(40, 90), np.full(40, 60)
    windows = order.windows(
        0, 0, np.arange(40), *sizes, compose(["exp=exp5", "data=imagenet", "data.path=x"]).data.window
    )
    mirrors = order.mirrors(0, 0, np.arange(40))
    found = DECODERS[decoder](24).decode(views([image] * 40, windows, mirrors)).pixels
    for pixels, window, mirror in zip(found, windows.tolist(), mirrors.tolist(), strict=True):
        expected = resized_crop(whole, *window, size=[24, 24]).permute(1, 2, 0)
        difference = pixels.float() - (expected.flip(1) if mirror else expected).float()
        assert difference.abs().mean() <= limit


def test_what_dali_cuts_out_before_it_decodes_is_what_lies_there() -> None:
    image = encoded(photo(60, 90, 9), quality=90, subsampling=2)
    windows = [[top, left, 24, 24] for top in (0, 7, 36) for left in (0, 13, 66)]
    found = DaliDecoder(24).decode(views([image] * len(windows), windows)).pixels.numpy()
    for pixels, (top, left, height, width) in zip(found, windows, strict=True):
        np.testing.assert_array_equal(pixels, pillow(image)[top : top + height, left : left + width])


def many(count: int) -> Views:
    """Images of several kinds under random windows."""
    images = [list(KINDS.values())[number % len(KINDS)] for number in range(count)]
    sizes = np.full(count, SIZE)
    windows = order.windows(0, 0, np.arange(count), sizes, sizes, compose(["exp=exp5"]).data.window)
    return views(images, windows, order.mirrors(0, 0, np.arange(count)))


@pytest.mark.parametrize("batch", [16, 32, 56, 64])
@pytest.mark.parametrize("size", [24, 64], ids=["DALI resizes", "torch resizes"])
@pytest.mark.parametrize("decoder", DECODERS)
def test_pixels_are_equal_in_batches_of_any_size_and_for_1_and_3_threads(decoder: str, size: int, batch: int) -> None:
    everything = many(300)  # more than one run of the pipeline
    whole = DECODERS[decoder](size).decode(everything).pixels
    for threads in (1, 3):
        other = DECODERS[decoder](size, threads=threads)
        parts = [other.decode(part).pixels for part in everything.parts(batch)]
        assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("decoder", DECODERS)
def test_bad_images_are_named_by_their_places_whoever_resizes_and_in_3_threads(decoder: str) -> None:
    everything = many(40)
    images = [b"text" if place in (3, 39) else image.tobytes() for place, image in enumerate(everything.images)]
    decoded = DECODERS[decoder](64, threads=3).decode(views(images, everything.windows, everything.mirrors))
    good = [place for place in range(40) if place not in (3, 39)]
    assert sorted(decoded.faults) == [3, 39]
    assert torch.equal(decoded.pixels[good], DECODERS[decoder](64).decode(everything).pixels[good])


@pytest.mark.parametrize("size", [24, 64])
def test_a_run_holds_so_many_pixels_and_no_more_but_for_an_image_alone(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = many(40)
    images = [b"" if place in (0, 21, 39) else image.tobytes() for place, image in enumerate(everything.images)]
    some_bad = views(images, everything.windows, everything.mirrors)
    whole = DaliDecoder(size).decode(some_bad)
    monkeypatch.setattr(decode_dali, "PIXELS_A_RUN", 2000)
    runs = list(some_bad.parts(256, 2000))
    areas = [part.windows[:, 2:].prod(axis=1).sum() for part in runs]
    assert sum(map(len, runs)) == 40
    assert max(areas) <= 2000
    assert min(a + b for a, b in itertools.pairwise(areas)) > 2000  # none could be joined
    assert [len(part) for part in some_bad.parts(256, 1)] == [1] * 40
    decoded = DaliDecoder(size).decode(some_bad)
    assert decoded.faults == whole.faults
    good = [place for place in range(40) if place not in decoded.faults]
    assert torch.equal(decoded.pixels[good], whole.pixels[good])


def test_the_batch_changes_without_a_new_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = DaliDecoder(24)
    monkeypatch.setattr(decode_dali, "pixels_pipeline", None)  # building another would fail
    for batch in (16, 32, 250, 56, 16, 1):
        assert decoder.decode(many(batch)).pixels.shape == (batch, 24, 24, 3)


def test_bad_images_cost_their_batch_nothing_and_the_pipeline_lives_on() -> None:
    decoder, everything = DaliDecoder(24, threads=3), many(300)
    whole = decoder.decode(everything).pixels
    bad = {
        3: b"",
        4: b"text",
        120: KINDS["4:2:0"][:100],
        255: KINDS["gray"][:-300],
        256: b"\xff\xd8\xff",
        299: b"\0" * 99,
    }
    images = [bad.get(place, image.tobytes()) for place, image in enumerate(everything.images)]
    windows = everything.windows.copy()
    windows[list(bad)] = [0, 0, SIZE, SIZE]
    for _ in range(20):
        decoded = decoder.decode(views(images, windows, everything.mirrors))
        assert sorted(decoded.faults) == sorted(bad)
        good = [place for place in range(300) if place not in bad]
        assert torch.equal(decoded.pixels[good], whole[good])
    assert torch.equal(decoder.decode(everything).pixels, whole)


def test_a_gpu_decodes_without_its_hardware_decoder_and_holds_the_largest_image() -> None:
    assert decode_dali.on_gpu(None) == {"device": "mixed", "hw_decoder_load": 0.0}
    # DALI's own example of a ResNet-50 gives these for ImageNet, whose largest image has 5980 x 6430 pixels.
    ours = decode_dali.on_gpu((5980, 6430))
    assert ours["device_memory_padding"] == pytest.approx(211_025_920, rel=0.02)
    assert ours["host_memory_padding"] == pytest.approx(140_544_512, rel=0.02)
    # Never less than DALI sets aside by itself: 16 and 8 MiB.
    small = decode_dali.on_gpu((28, 28))
    assert (small["device_memory_padding"], small["host_memory_padding"]) == (16 << 20, 8 << 20)


@pytest.mark.parametrize(("decode_on", "device"), [("cpu", None), ("cuda", torch.device("cuda", 3))])
def test_the_workers_gpu_decodes_where_the_configuration_says_so(
    monkeypatch: pytest.MonkeyPatch, decode_on: str, device: torch.device | None
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(decode_dali, "DaliDecoder", lambda size, **others: given.update(others, size=size))
    data = compose(["site=slurm", "data.path=/data", f"data.decode_on={decode_on}", "data.decoder_threads=5"]).data
    decode.build(data, torch.device("cuda", 3), largest=(640, 480))
    assert given == {"size": 224, "threads": 5, "device": device, "largest": (640, 480)}


def test_a_fault_of_the_machine_is_no_images(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("CUDA runtime API error cudaErrorMemoryAllocation (2): out of memory")

    decoder = DaliDecoder(24)
    monkeypatch.setattr(decoder, "_run", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        decoder.decode(many(16))


def test_without_dali_the_line_says_what_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pipeline.data.decode_dali")
    monkeypatch.setitem(sys.modules, "nvidia.dali", None)
    with pytest.raises(UserError, match=r"nvidia-dali cannot be imported .* take data.decoder=torchvision") as caught:
        decode.build(compose(["exp=exp5"]).data)
    assert "\n" not in str(caught.value)
    assert isinstance(decode.build(compose(["exp=exp5", "data.decoder=torchvision"]).data), TorchvisionDecoder)


def test_memory_is_flat_over_60_epochs_with_bad_samples() -> None:
    decoder, everything = DaliDecoder(24), many(100)
    images = [image.tobytes() for image in everything.images]
    images[50] = b""
    resident = []
    for _ in range(60):
        for batch in (16, 32, 56):
            for part in views(images, everything.windows, everything.mirrors).parts(batch):
                decoder.decode(part)
        resident.append(resident_bytes())
    assert max(resident[5:]) <= 1.05 * resident[5]


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
