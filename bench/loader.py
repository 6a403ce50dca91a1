"""The loader against torch's own: `make bench-loader`, or `python -m bench.loader`.

Ours decodes with DALI or with torchvision, in a thread beside the trainer. The peers are what one would write by hand:
torch's DataLoader with one worker process that decodes with Pillow, or with torchvision.io and transforms. All read the
same shards from memory, cut the same windows out and yield normalised fp32 batches in channels-last layout. They run in
turn, block by block; the medians over all blocks are compared. CPU time is that of all threads and processes.

Two data sets: the sample (28 x 28 to 24 x 24), and made-up photographs of ImageNet's size (500 x 375 to 224 x 224).
"""

import argparse
import io
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.functional import interpolate
from torch.utils.data import DataLoader, Dataset
from torchvision.io import ImageReadMode, decode_image, encode_jpeg
from torchvision.transforms.v2.functional import horizontal_flip, resized_crop

from jobs import compose
from pipeline.config import Config, make_plan
from pipeline.data import order
from pipeline.data.loader import TrainingLoader
from pipeline.data.memory import SampleMemory
from pipeline.data.shard_writer import Sample, write_manifest, write_split
from pipeline.data.shards import read_index
from pipeline.data.staging import stage
from pipeline.evaluate import OneProcess

PHOTOS = 128
PHOTO_WIDTH, PHOTO_HEIGHT, PHOTO_QUALITY = 500, 375, 90
PHOTO_CLASSES = 10
View = tuple[int, list[int], bool]
"""Sample, window, mirror: what a peer's sampler asks for."""
Updates = Generator[int, None, None]
"""Images of each update that a loader has ready."""


@dataclass(frozen=True)
class Row:
    """A line of the table: medians of a loader on a data set."""

    data: str
    loader: str
    images_per_cpu_s: float
    images_per_s: float
    cpu_us_a_batch: float
    """Of 16 images."""
    ratio: float
    """Images a CPU-second, against ours with DALI."""


@dataclass(frozen=True)
class Bench:
    """A data set in memory, with the run that reads it."""

    name: str
    memory: SampleMemory
    words: tuple[str, ...]
    updates_a_block: int

    def config(self, decoder: str) -> Config:
        return compose.compose(["exp=exp5", *self.words, f"data.decoder={decoder}"])


def main(arguments: list[str]) -> int:
    """Measure, print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    parser.add_argument("--blocks", type=int, default=5, help="blocks of a second or so for each loader")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        rows = [row for bench in (sample(), photos(Path(scratch))) for row in measure(bench, options.blocks)]
    print_rows(rows)
    if options.json:
        options.json.write_text(json.dumps([vars(row) for row in rows], indent=1) + "\n")
    return 0


def sample() -> Bench:
    """The sample's training images."""
    config = compose.compose(["exp=exp5"])
    (memory,) = stage([read_index(Path(config.data.path), "train")], OneProcess())
    return Bench("28x28 to 24x24", memory, (), updates_a_block=400)


def photos(folder: Path) -> Bench:
    """Images of smooth noise with some grain, 85 to 110 kB each, as ImageNet's are; written to `folder`."""
    images = [photo(number) for number in range(PHOTOS)]
    samples = (
        Sample(f"photo-{number:04d}", image, number % PHOTO_CLASSES, PHOTO_WIDTH, PHOTO_HEIGHT)
        for number, image in enumerate(images)
    )
    write_manifest(
        folder,
        name="photos",
        classes=PHOTO_CLASSES,
        splits={"train": write_split(folder, "train", samples, samples_per_shard=PHOTOS)},
    )
    (memory,) = stage([read_index(folder, "train")], OneProcess())
    words = ("data=imagenet", f"data.path={json.dumps(str(folder))}", f"data.train_samples={PHOTOS}")
    size = sum(map(len, images)) / PHOTOS / 1000
    return Bench(f"{PHOTO_WIDTH}x{PHOTO_HEIGHT} ({size:.0f} kB) to 224x224", memory, words, updates_a_block=12)


def photo(seed: int) -> bytes:
    """One JPEG."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, PHOTO_HEIGHT // 16, PHOTO_WIDTH // 16, generator=generator) * 219
    smooth = interpolate(coarse, size=(PHOTO_HEIGHT, PHOTO_WIDTH), mode="bicubic")[0]
    grain = torch.rand(1, PHOTO_HEIGHT, PHOTO_WIDTH, generator=generator) * 36
    pixels = (smooth + grain).clamp(0, 255).round().to(torch.uint8)
    return encode_jpeg(pixels, quality=PHOTO_QUALITY).numpy().tobytes()


def measure(bench: Bench, blocks: int) -> list[Row]:
    """All loaders on one data set, block by block in turn."""
    config = bench.config("torchvision")
    loaders: dict[str, Callable[[], Updates]] = {
        "ours, DALI": partial(ours, bench.memory, bench.config("dali")),
        "ours, torchvision": partial(ours, bench.memory, config),
        "DataLoader, Pillow": partial(peer, Pillow(bench.memory, config), config),
        "DataLoader, torchvision.io": partial(peer, TorchvisionIO(bench.memory, config), config),
    }
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in loaders}
    for _, (name, start) in itertools.product(range(blocks), loaders.items()):
        spent[name].append(block(start(), bench.updates_a_block))
    medians = {name: [statistics.median(times) for times in zip(*pairs, strict=True)] for name, pairs in spent.items()}
    best = medians["ours, DALI"][0]
    return [
        Row(bench.name, name, 1 / cpu_s, 1 / wall_s, cpu_s * 16e6, best / cpu_s)
        for name, (cpu_s, wall_s) in medians.items()
    ]


def block(batches: Updates, updates: int) -> tuple[float, float]:
    """CPU and wall seconds an image over `updates` updates; as many before them are not counted, up to 20."""
    for _ in itertools.islice(batches, min(updates, 20)):
        pass
    cpu, wall = cpu_s(), time.perf_counter()
    images = sum(itertools.islice(batches, updates))
    spent = (cpu_s() - cpu) / images, (time.perf_counter() - wall) / images
    batches.close()
    return spent


def cpu_s() -> float:
    """CPU seconds of this process and of its children that live."""
    ticks = 0
    for child in multiprocessing.active_children():
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def ours(memory: SampleMemory, config: Config) -> Updates:
    """Images of each update of the first worker."""
    loader = TrainingLoader(memory, config.data, make_plan(config), seed=0, worker=0, first_update=0)
    try:
        for micro_batches in loader:
            yield sum(len(batch.labels) for batch in micro_batches)
    finally:
        loader.close()


def peer(dataset: "Peer", config: Config) -> Updates:
    """The same, of torch's DataLoader."""
    loader = DataLoader(
        dataset, batch_sampler=views(dataset.memory, config), num_workers=1, collate_fn=dataset.collate,
        multiprocessing_context="fork",
    )  # fmt: skip
    for _, labels in loader:
        yield len(labels)


def views(memory: SampleMemory, config: Config) -> list[list[View]]:
    """What the first worker sees in the updates of the first stage, batch by batch."""
    plan = make_plan(config)
    stage, batches = plan.stages[0], []
    for update in range(min(stage.updates, 1000)):
        epoch, inside = divmod(update, stage.updates_per_epoch)
        samples = order.update_samples(order.permutation(0, epoch, plan.samples), inside, stage)
        mine = order.worker_samples(samples, 0, stage).ravel()
        sizes = memory.index.width[mine], memory.index.height[mine]
        windows = order.windows(0, epoch, mine, *sizes, config.data.window).tolist()
        mirrors = order.mirrors(0, epoch, mine) & config.data.mirror
        batches.append(list(zip(mine.tolist(), windows, mirrors.tolist(), strict=True)))
    return batches


class Peer(Dataset[tuple[Tensor, int]]):
    """A data set as one would write it for torch's DataLoader."""

    def __init__(self, memory: SampleMemory, config: Config) -> None:
        self.memory = memory
        self._size = config.data.image_size
        self._mean = torch.tensor(config.data.mean).view(1, 3, 1, 1)
        self._std = torch.tensor(config.data.std).view(1, 3, 1, 1)

    def __getitem__(self, view: View) -> tuple[Tensor, int]:
        """One image, (3, size, size) uint8, and its label."""
        sample, window, mirror = view
        return self.decode(self.memory.image(sample), window, mirror=mirror), int(self.memory.index.label[sample])

    @abstractmethod
    def decode(self, image: NDArray[np.uint8], window: list[int], *, mirror: bool) -> Tensor:
        """Decode one image through its window, as a user of the library would: (3, size, size) uint8."""

    def collate(self, samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        """A batch: normalised once for all its images, as torchvision's reference script does on a GPU."""
        images = torch.stack([image for image, _ in samples]).to(torch.float32, memory_format=torch.channels_last)
        return images.sub_(self._mean).div_(self._std), torch.tensor([label for _, label in samples])


class Pillow(Peer):
    """Decodes with Pillow."""

    def decode(self, image: NDArray[np.uint8], window: list[int], *, mirror: bool) -> Tensor:
        top, left, height, width = window
        box = (left, top, left + width, top + height)
        whole = Image.open(io.BytesIO(image.tobytes())).convert("RGB")
        resized = whole.crop(box).resize((self._size, self._size), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(resized)).permute(2, 0, 1)
        return horizontal_flip(pixels) if mirror else pixels


class TorchvisionIO(Peer):
    """Decodes with torchvision.io."""

    def decode(self, image: NDArray[np.uint8], window: list[int], *, mirror: bool) -> Tensor:
        pixels = resized_crop(
            decode_image(torch.from_numpy(image), mode=ImageReadMode.RGB), *window, size=[self._size, self._size]
        )
        return horizontal_flip(pixels) if mirror else pixels


def print_rows(rows: list[Row]) -> None:
    """The table of all data sets."""
    title = f"Loaders in batches of 16, one thread or worker process, {os.cpu_count()} cores"
    table = Table(title=title, title_justify="left")
    for name in ("images", "loader", "images/CPU-s", "images/s", "CPU us/batch", "ratio"):
        table.add_column(name, justify="left" if name in ("images", "loader") else "right")
    for row in rows:
        figures = f"{row.images_per_cpu_s:,.0f}", f"{row.images_per_s:,.0f}", f"{row.cpu_us_a_batch:,.0f}"
        table.add_row(row.data, row.loader, *figures, f"{row.ratio:.2f}")
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
