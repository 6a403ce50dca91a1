"""Images a second of ResNet-50 on one GPU: forward, backward and update in FP16, channels_last, 224 pixels."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

UPDATES = 20


def measure(batch: int) -> list[dict[str, Any]]:
    """From synthetic images, which cost nothing, and from JPEGs that DALI decodes on the GPU."""
    import torchvision

    device = torch.device("cuda", 0)
    model = torchvision.models.resnet50().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    criterion = nn.CrossEntropyLoss()

    def update(images: torch.Tensor, labels: torch.Tensor) -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = criterion(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    synthetic = torch.randn(batch, 3, 224, 224, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (batch,), device=device)
    rows = [_speed("synthetic", batch, lambda: update(synthetic, labels))]
    with tempfile.TemporaryDirectory() as scratch:
        loader = dali_batches(Path(scratch), batch)
        rows.append(_speed("DALI, decoded on the GPU", batch, lambda: update(next(loader), labels)))
    return rows


def dali_batches(folder: Path, batch: int) -> Iterator[Tensor]:
    """Endless batches of JPEGs of 500x375 pixels, decoded, cropped and mirrored as the run's loader does."""
    import numpy as np
    from PIL import Image

    from pipeline.config.schema import DataConfig, WindowConfig
    from pipeline.data import decode

    generator = np.random.default_rng(0)
    encoded = []
    for number in range(64):
        noise = generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        path = folder / f"{number}.jpeg"
        Image.fromarray(noise).resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=90)
        encoded.append(np.frombuffer(path.read_bytes(), dtype=np.uint8))
    data = DataConfig(
        name="synthetic photographs", path="", image_size=224, window=WindowConfig([0.08, 1.0], [0.75, 1.33]),
        mirror=True, validation_crop=0.875, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], decoder="dali",
        decode_on="cuda",
    )  # fmt: skip
    decoder = decode.build(data, torch.device("cuda", 0))
    mean = torch.tensor(data.mean, device="cuda").view(1, 3, 1, 1)
    std = torch.tensor(data.std, device="cuda").view(1, 3, 1, 1)
    images = [encoded[place % len(encoded)] for place in range(batch)]
    views = decode.Views(
        images, np.tile(np.array([50, 30, 375, 300]), (batch, 1)), generator.integers(0, 2, batch).astype(np.bool_)
    )
    with ThreadPoolExecutor(1) as thread:  # decodes ahead of the trainer, as the run's loader does
        ahead = [thread.submit(decoder.decode, views) for _ in range(2)]
        while True:
            pixels = ahead.pop(0).result().pixels.to("cuda")
            ahead.append(thread.submit(decoder.decode, views))
            yield ((pixels.permute(0, 3, 1, 2) - mean) / std).contiguous(memory_format=torch.channels_last)


def _speed(source: str, batch: int, update: Callable[[], None]) -> dict[str, Any]:
    """Median over blocks of `UPDATES` updates, after one that is not counted."""
    taken = []
    for block in range(4):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(UPDATES):
            update()
        torch.cuda.synchronize()
        if block:
            taken.append((time.perf_counter() - began) / UPDATES)
    return {"images_from": source, "batch": batch, "update_s": statistics.median(taken),
            "images_per_s": batch / statistics.median(taken)}  # fmt: skip
