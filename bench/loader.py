"""The loader against what one would take otherwise: `make bench-loader`, or `python -m bench.loader`.

Ours decodes with DALI or with torchvision, in a thread beside the trainer. Its peers, each with one thread or worker
process: torch's DataLoader with Pillow or torchvision.io, DALI's own file reader, WebDataset. The limit is decoding,
cutting out and resizing alone, with nothing around it: all by DALI, and with torch's resize, which is quicker. All read
the same images from memory and yield batches of 16 in channels-last layout, normalised fp32 but for the limits' uint8.
They run in turn, block by block; the medians over all blocks are compared. CPU time: of all threads and processes.

Two data sets: the sample (28 x 28 to 16 x 16, ours and DataLoader only), and made-up photographs of ImageNet's size
(500 x 375 to 224 x 224).
"""

import argparse
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from bench.loader_images import IMAGES_A_BATCH, Images, photos, sample
from bench.loader_peers import (
    Pillow,
    TorchvisionIO,
    Updates,
    dali_alone,
    dali_reader,
    data_loader,
    decoding_alone,
    ours,
    web_dataset,
)

OURS = "ours, DALI"
DALI_ALONE, TORCH_RESIZES = "limit: DALI alone", "limit: DALI, torch resizes"
TARGETS = {"DataLoader, ": 1.15, "DALI, readers.file": 0.95, DALI_ALONE: 0.85, TORCH_RESIZES: 0.85}
"""Images a CPU-second of ours, as a share of the best whose name begins so: what it is meant to be at the least."""


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


def main(arguments: list[str]) -> int:
    """Measure, print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    parser.add_argument("--blocks", type=int, default=7, help="blocks of a second or so for each loader")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="bench-loader-", dir="/dev/shm") as scratch:
        folder = Path(scratch)
        digits, large = sample(), photos(folder)
        rows = measure(digits, data_loaders(digits), options.blocks)
        rows += measure(large, data_loaders(large) | libraries(large, folder), options.blocks)
    print_rows(rows)
    print_targets(rows)
    if options.json:
        options.json.write_text(json.dumps([vars(row) for row in rows], indent=1) + "\n")
    return 0


Loaders = dict[str, Callable[[], Updates]]
"""Each by its name: what starts it."""


def data_loaders(images: Images) -> Loaders:
    """Ours, and torch's DataLoader."""
    config = images.config("torchvision")
    return {
        OURS: partial(ours, images.memory, images.config("dali")),
        "ours, torchvision": partial(ours, images.memory, config),
        "DataLoader, Pillow": partial(data_loader, Pillow(images.memory, config), config),
        "DataLoader, torchvision.io": partial(data_loader, TorchvisionIO(images.memory, config), config),
    }


def libraries(images: Images, folder: Path) -> Loaders:
    """What else reads such images, from files or shards in `folder`; and the limit."""
    config = images.config("dali")
    return {
        "DALI, readers.file": partial(dali_reader, folder / "files", config),
        "WebDataset, torchvision.io": partial(web_dataset, sorted(folder.glob("train-*.tar")), config),
        DALI_ALONE: partial(dali_alone, images.memory, config),
        TORCH_RESIZES: partial(decoding_alone, images.memory, config),
    }


def measure(images: Images, loaders: Loaders, blocks: int) -> list[Row]:
    """All loaders on one data set, block by block in turn."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in loaders}
    for _, (name, start) in itertools.product(range(blocks), loaders.items()):
        spent[name].append(block(start(), images.updates_a_block))
    medians = {name: [statistics.median(times) for times in zip(*pairs, strict=True)] for name, pairs in spent.items()}
    best = medians[OURS][0]
    return [
        Row(images.name, name, 1 / cpu_s, 1 / wall_s, cpu_s * IMAGES_A_BATCH * 1e6, best / cpu_s)
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


def print_rows(rows: Sequence[Row]) -> None:
    """The table of all data sets."""
    title = f"Loaders in batches of {IMAGES_A_BATCH}, one thread or worker process, {os.cpu_count()} cores"
    table = Table(title=title, title_justify="left")
    for name in ("images", "loader", "images/CPU-s", "images/s", "CPU us/batch", "ratio"):
        table.add_column(name, justify="left" if name in ("images", "loader") else "right")
    for row in rows:
        figures = f"{row.images_per_cpu_s:,.0f}", f"{row.images_per_s:,.0f}", f"{row.cpu_us_a_batch:,.0f}"
        table.add_row(row.data, row.loader, *figures, f"{row.ratio:.2f}")
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)


def print_targets(rows: Sequence[Row]) -> None:
    """Ours against what it is meant to reach, on the last data set."""
    of_photos = {row.loader: row.images_per_cpu_s for row in rows if row.data == rows[-1].data}
    for name, least in TARGETS.items():
        best = max((found, loader) for loader, found in of_photos.items() if loader.startswith(name))
        print(f"ours / {best[1]}: {of_photos[OURS] / best[0]:.2f} (at least {least})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
