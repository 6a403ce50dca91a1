"""ResNets by layer: parameters and multiplications, counted from the architecture. Torch-free; pure functions.

The networks are those of `pipeline.models`: torchvision's ResNet-50 (He et al. 2015, with the stride in the 3x3
convolution) and the small ResNet of bottleneck blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.config.schema import ModelConfig
from pipeline.errors import UserError

COUNTED = ("resnet50", "small_resnet")
"""What the estimate knows."""
EXPANSION = 4
"""Channels that leave a bottleneck block, for one inside."""
RESNET50: tuple[int, tuple[int, ...], tuple[int, ...]] = (64, (64, 128, 256, 512), (3, 4, 6, 3))
"""Stem's channels, inner channels by layer, blocks by layer: table 1 of He et al. 2015."""


@dataclass(frozen=True)
class Layer:
    """A convolution with its batch-norm, or the classifier."""

    name: str
    parameters: tuple[int, ...]
    """Elements of its parameters, in torch's order: weight, then batch-norm's weight and bias, or the bias."""
    multiplications: int
    """Of the forward pass, for one image; each has its addition."""
    passes_gradient_on: bool = True
    """Whether the backward pass needs the gradient of what came in: not so in the first layer."""

    @property
    def backward_multiplications(self) -> int:
        """As many again for the gradient of the weights, and of what came in where it is passed on."""
        return self.multiplications * (2 if self.passes_gradient_on else 1)


def layers(model: ModelConfig, image_size: int) -> list[Layer]:
    """The layers of `model` for images of `image_size` pixels a side, in the order in which torch lists parameters.

    Batch-norm, ReLU and pools are not counted: they multiply little, and wait for memory instead.
    Raises UserError for a network that is no ResNet.
    """
    if model.name not in COUNTED:
        raise UserError(
            f"model {model.name}: its layers are not counted, so nothing can be estimated; "
            f"those of {' and '.join(COUNTED)} are"
        )
    is_large = model.name == "resnet50"
    stem, widths, blocks = RESNET50 if is_large else (model.stem, tuple(model.widths), tuple(model.blocks))
    kernel = 7 if is_large else 3
    found = [_convolution("conv1", 3, stem, kernel, size := _halved(image_size), first=True)]
    if is_large:
        size = _halved(size)  # the pool behind the stem
    body, channels = _blocks(stem, widths, blocks, size)
    classifier = Layer("fc", (channels * model.classes, model.classes), channels * model.classes)
    return [*found, *body, classifier]


def _blocks(channels: int, widths: Sequence[int], blocks: Sequence[int], size: int) -> tuple[list[Layer], int]:
    """All bottleneck blocks, and the channels that leave the last."""
    found: list[Layer] = []
    for number, (width, count) in enumerate(zip(widths, blocks, strict=True), start=1):
        for block in range(count):
            name = f"layer{number}.{block}"
            before, size = size, _halved(size) if number > 1 and block == 0 else size
            found += [
                _convolution(f"{name}.conv1", channels, width, 1, before),
                _convolution(f"{name}.conv2", width, width, 3, size),
                _convolution(f"{name}.conv3", width, EXPANSION * width, 1, size),
            ]
            if block == 0 and (before != size or channels != EXPANSION * width):
                found.append(_convolution(f"{name}.downsample", channels, EXPANSION * width, 1, size))
            channels = EXPANSION * width
    return found, channels


def _convolution(name: str, channels: int, out: int, kernel: int, size: int, *, first: bool = False) -> Layer:
    """A convolution without bias whose output is size x size, and its batch-norm."""
    weights = channels * out * kernel * kernel
    return Layer(name, (weights, out, out), weights * size * size, passes_gradient_on=not first)


def _halved(size: int) -> int:
    """What a stride of two leaves of a side, padded so that no pixel is lost."""
    return (size + 1) // 2
