"""A split's images by number: decoded, normalised, with their labels; what cannot be decoded is named.

In: samples in memory, a decoder, sample numbers with windows and mirrors. Out: what the network takes.
"""

import sys
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.config.schema import DataConfig
from pipeline.data.decode import Decoder, Views
from pipeline.data.memory import SampleMemory
from pipeline.data.shards import Index
from pipeline.errors import UserError


@dataclass(frozen=True)
class Labelled:
    """Images with their labels."""

    images: Tensor
    """(n, 3, image_size, image_size) fp32, normalised, channels last."""
    labels: Tensor
    """(n,) int64."""
    bad: list[int]
    """Places of samples that could not be decoded; their pixels mean nothing."""


class Images:
    """The images of one split."""

    def __init__(self, index: Index, config: DataConfig, decoder: Decoder, *, instead: str) -> None:
        """instead: what the caller does about a bad sample where data.on_bad_sample=replace, for the log."""
        self.index = index
        self._decoder = decoder
        self._refuse = config.on_bad_sample == "refuse"
        self._instead = instead
        self._named: set[int] = set()
        # Both for each number of a row: torch is three times faster on a long last axis than on one of 3 channels.
        mean, std = (torch.tensor(channels).repeat(config.image_size) for channels in (config.mean, config.std))
        self._scale, self._shift = 1 / std, -mean / std

    def read(
        self,
        memory: SampleMemory,
        samples: NDArray[np.int64],
        windows: NDArray[np.int64],
        mirrors: NDArray[np.bool_],
    ) -> Labelled:
        """memory: where the samples are. samples (n,), windows (n, 4), mirrors (n,).

        Raises UserError that names a sample that cannot be decoded, unless data.on_bad_sample=replace.
        """
        encoded = [memory.image(sample) for sample in samples.tolist()]
        decoded = self._decoder.decode(Views(encoded, windows, mirrors))
        for place, fault in decoded.faults.items():
            self._name(int(samples[place]), fault)
        labels = torch.from_numpy(self.index.label[samples])
        return Labelled(self._normalise(decoded.pixels), labels, list(decoded.faults))

    def _normalise(self, pixels: Tensor) -> Tensor:
        """(n, size, size, 3) uint8 to (n, 3, size, size) fp32, channels last."""
        rows = pixels.flatten(2).to(torch.float32)
        torch.addcmul(self._shift.to(rows.device), rows, self._scale.to(rows.device), out=rows)  # one pass, not two
        return rows.view(pixels.shape).permute(0, 3, 1, 2)

    def _name(self, sample: int, fault: str) -> None:
        """Refuse a bad sample, or say once what is done about it."""
        line = f"sample {self.index.where(sample)} cannot be decoded: {fault}"
        if self._refuse:
            raise UserError(f"{line}; data.on_bad_sample=replace would go on without it")
        if sample not in self._named:
            self._named.add(sample)
            print(f"{line}; {self._instead}", file=sys.stderr, flush=True)
