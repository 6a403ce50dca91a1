"""Checks of decoding that need a GPU: nvJPEG against the CPU, equal bits in any batch, rates. Part of `make bench-gpu`.

It has not run on a GPU yet. Expected: a mean difference of at most half a step of 255 (nvJPEG's inverse DCT and DALI's
resize round otherwise), equal bits for every batch and number of threads, since the hardware decoder is off.
"""

import time
from typing import Any

import numpy as np
import torch

from bench.loader_images import PHOTO_HEIGHT, PHOTO_WIDTH, photo
from pipeline.config.schema import WindowConfig
from pipeline.data import order
from pipeline.data.decode import Decoder, Views
from pipeline.data.decode_dali import DaliDecoder

IMAGES, SIZE, LARGEST = 256, 224, (PHOTO_WIDTH, PHOTO_HEIGHT)
BATCHES, THREADS = (16, 56, 250), (1, 4, 8)
MEAN_DIFFERENCE = 0.5
"""Of 255, of an image: what resizing within rounding means."""


def check_decoding() -> list[dict[str, Any]]:
    """GPU against CPU; any batch and any number of threads; images that cannot be decoded."""
    views, gpu = photographs(), torch.device("cuda", 0)
    on_cpu = DaliDecoder(SIZE).decode(views).pixels
    whole = DaliDecoder(SIZE, device=gpu, largest=LARGEST).decode(views).pixels
    difference = (whole.cpu().float() - on_cpu.float()).abs().mean(dim=(1, 2, 3)).max().item()
    rows = [_row(f"GPU against CPU: {difference:.3f} of 255", difference <= MEAN_DIFFERENCE)]
    for threads in THREADS:
        decoder = DaliDecoder(SIZE, threads=threads, device=gpu)
        equal = all(
            torch.equal(torch.cat([decoder.decode(part).pixels for part in views.parts(batch)]), whole)
            for batch in BATCHES
        )
        rows.append(_row(f"equal bits in batches of {', '.join(map(str, BATCHES))}, {threads} threads", equal))
    bad = (0, 17, IMAGES - 1)
    images = [np.zeros(99, np.uint8) if place in bad else image for place, image in enumerate(views.images)]
    decoded = DaliDecoder(SIZE, device=gpu).decode(Views(images, views.windows, views.mirrors))
    good = [place for place in range(IMAGES) if place not in bad]
    named = sorted(decoded.faults) == list(bad)
    return [
        *rows,
        _row("bad images are named, the others whole", named and torch.equal(decoded.pixels[good], whole[good])),
    ]


def decoding_rates() -> list[dict[str, Any]]:
    """Images a second and a CPU-second, on the CPU and on the GPU, by threads."""
    views = photographs()
    rows = []
    for threads in THREADS:
        for where, device in (("CPU", None), ("GPU", torch.device("cuda", 0))):
            decoder = DaliDecoder(SIZE, threads=threads, device=device, largest=LARGEST)
            rows.append({"decoded on": where, "threads": threads} | _rates(decoder, views))
    return rows


def photographs() -> Views:
    """Images of ImageNet's size under random windows."""
    distinct = [np.frombuffer(bytearray(photo(number)), np.uint8) for number in range(64)]
    samples = np.arange(IMAGES)
    sizes = np.full(IMAGES, PHOTO_WIDTH), np.full(IMAGES, PHOTO_HEIGHT)
    windows = order.windows(0, 0, samples, *sizes, WindowConfig([0.08, 1.0], [3 / 4, 4 / 3]))
    return Views([distinct[place % len(distinct)] for place in samples], windows, order.mirrors(0, 0, samples))


def _rates(decoder: Decoder, views: Views) -> dict[str, float]:
    """Over eight passes, after two that are not counted."""
    for number in range(10):
        if number == 2:
            torch.cuda.synchronize()
            wall_s, cpu_s = time.perf_counter(), time.process_time()
        decoder.decode(views)
    torch.cuda.synchronize()
    images = 8 * len(views)
    return {
        "images_per_s": images / (time.perf_counter() - wall_s),
        "images_per_cpu_s": images / (time.process_time() - cpu_s),
    }


def _row(what: str, right: bool) -> dict[str, Any]:
    return {"check": what, "right": right}
