"""Ours, its peers as one would write them by hand after their own documentation, and the limit: a generator each.

Each yields the number of images of an update that is ready: normalised, fp32, channels last.
"""

import io
import itertools
from abc import abstractmethod
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import webdataset
from numpy.typing import NDArray
from nvidia.dali import fn, types
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.pytorch import DALIClassificationIterator, LastBatchPolicy
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2
from torchvision.transforms.v2.functional import horizontal_flip, resized_crop

from bench.loader_images import IMAGES_A_BATCH
from pipeline.config import Config, make_plan
from pipeline.data import decode_dali, order
from pipeline.data.loader import TrainingLoader
from pipeline.data.memory import SampleMemory

View = tuple[int, list[int], bool]
"""Sample, window, mirror: what a peer's sampler asks for."""
Updates = Generator[int, None, None]
"""Images of each update that a loader has ready."""


def ours(memory: SampleMemory, config: Config) -> Updates:
    """The first worker's loader."""
    loader = TrainingLoader(memory, config.data, make_plan(config), seed=0, worker=0, first_update=0)
    try:
        for micro_batches in loader:
            yield sum(len(batch.labels) for batch in micro_batches)
    finally:
        loader.close()


def data_loader(dataset: "Peer", config: Config) -> Updates:
    """Torch's DataLoader: one worker process, which reads from the same memory and cuts out the same windows."""
    loader = DataLoader(
        dataset, batch_sampler=views(dataset.memory, config), num_workers=1, collate_fn=dataset.normalise.collate,
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


class Normalise:
    """A batch's last step: once for all its images, as torchvision's reference script does on a GPU."""

    def __init__(self, config: Config) -> None:
        self._mean = torch.tensor(config.data.mean).view(1, 3, 1, 1)
        self._std = torch.tensor(config.data.std).view(1, 3, 1, 1)

    def collate(self, samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        """(3, size, size) uint8 images and their labels to (n, 3, size, size) fp32, channels last."""
        images = torch.stack([image for image, _ in samples]).to(torch.float32, memory_format=torch.channels_last)
        return images.sub_(self._mean).div_(self._std), torch.tensor([label for _, label in samples])


class Peer(Dataset[tuple[Tensor, int]]):
    """A data set as one would write it for torch's DataLoader."""

    def __init__(self, memory: SampleMemory, config: Config) -> None:
        self.memory = memory
        self.normalise = Normalise(config)
        self._size = config.data.image_size

    def __getitem__(self, view: View) -> tuple[Tensor, int]:
        """One image, (3, size, size) uint8, and its label."""
        sample, window, mirror = view
        return self.decode(self.memory.image(sample), window, mirror=mirror), int(self.memory.index.label[sample])

    @abstractmethod
    def decode(self, image: NDArray[np.uint8], window: list[int], *, mirror: bool) -> Tensor:
        """Decode one image through its window, as a user of the library would: (3, size, size) uint8."""


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


def web_dataset(shards: Sequence[Path], config: Config) -> Updates:
    """WebDataset on tar files: one worker process, torchvision.io and torchvision's transforms."""
    window = config.data.window
    transforms = v2.Compose(
        [
            v2.RandomResizedCrop(config.data.image_size, scale=tuple(window.area), ratio=tuple(window.ratio)),
            v2.RandomHorizontalFlip(),
        ]
    )

    def decode(key: str, data: bytes) -> Tensor | None:
        if key != ".jpg":
            return None
        return decode_image(torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=ImageReadMode.RGB)

    samples = webdataset.WebDataset(
        [str(shard) for shard in shards], shardshuffle=len(shards), seed=0, workersplitter=None
    )
    samples = samples.repeat().shuffle(100).decode(decode).to_tuple("jpg", "cls").map_tuple(transforms, int)
    batches = samples.batched(IMAGES_A_BATCH, collation_fn=Normalise(config).collate)
    for _, labels in webdataset.WebLoader(batches, batch_size=None, num_workers=1, multiprocessing_context="fork"):
        yield len(labels)


def dali_reader(folder: Path, config: Config) -> Updates:
    """DALI as its documentation has it for ResNet-50: files of class folders, random windows of its own."""
    data = config.data

    pipeline = Pipeline(batch_size=IMAGES_A_BATCH, num_threads=1, device_id=None, seed=0)
    with pipeline:
        jpegs, labels = fn.readers.file(file_root=str(folder), random_shuffle=True, name="Reader")
        images = fn.decoders.image_random_crop(
            jpegs,
            device="cpu",
            output_type=types.RGB,
            random_aspect_ratio=data.window.ratio,
            random_area=data.window.area,
            num_attempts=100,
        )
        images = fn.resize(images, size=[data.image_size, data.image_size], interp_type=types.INTERP_TRIANGULAR)
        images = fn.crop_mirror_normalize(
            images,
            dtype=types.FLOAT,
            output_layout="HWC",
            crop=(data.image_size, data.image_size),
            mean=data.mean,
            std=data.std,
            mirror=fn.random.coin_flip(probability=0.5),
        )
        pipeline.set_outputs(images, labels)
    pipeline.build()
    loader = DALIClassificationIterator(
        pipeline, reader_name="Reader", auto_reset=True, last_batch_policy=LastBatchPolicy.PARTIAL
    )
    while True:
        for (batch,) in loader:
            yield len(batch["data"].permute(0, 3, 1, 2))


def dali_alone(memory: SampleMemory, config: Config) -> Updates:
    """DALI decodes, cuts out and resizes; nothing else."""
    pipeline = decode_dali.pixels_pipeline(config.data.image_size, 1, None, None)
    for batch in itertools.cycle(inputs(memory, config)):
        pipeline.run(**batch)
        yield len(batch["mirrors"])


def decoding_alone(memory: SampleMemory, config: Config) -> Updates:
    """DALI decodes and cuts out, torch resizes, which is quicker; nothing else."""
    pipeline = decode_dali.windows_pipeline(1)
    resizer = decode_dali.Resizer(config.data.image_size, 1)
    for batch in itertools.cycle(inputs(memory, config)):
        (windows,) = pipeline.run(**{name: batch[name] for name in ("images", "starts", "shapes")})
        yield len(resizer.resize(windows, batch["mirrors"]))


def inputs(memory: SampleMemory, config: Config) -> list[dict[str, Any]]:
    """What the pipelines are fed for some updates, made beforehand."""
    found = []
    for batch in views(memory, config)[:16]:
        samples, windows, mirrors = zip(*batch, strict=True)
        edges = np.array(windows, dtype=np.int32)
        found.append(
            {
                "images": decode_dali.wrap([memory.image(sample) for sample in samples]),
                "starts": np.ascontiguousarray(edges[:, :2]),
                "shapes": np.ascontiguousarray(edges[:, 2:]),
                "mirrors": np.array(mirrors, dtype=np.int32),
            }
        )
    return found
