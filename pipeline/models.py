"""The networks: torchvision's ResNet-50 and GoogLeNet, and a small ResNet for small images.

All have torchvision's parameter names. In: the model's configuration. Out: an initialised module, the same for the
same torch seed. ResNets start as He et al. 2015 have it (normal, fan out), and where the recipe asks for it with the
last batch-norm weight of each block at zero (Goyal et al. 2017), so that every block starts as its shortcut.
"""

import torch
from torch import Tensor, nn
from torchvision.models import googlenet, resnet50
from torchvision.models.resnet import Bottleneck

from pipeline.config.schema import ModelConfig


def build(config: ModelConfig) -> nn.Module:
    """The network that `config` names, initialised."""
    if config.name == "resnet50":
        return resnet50(num_classes=config.classes, zero_init_residual=config.zero_last_gamma)
    if config.name == "googlenet":
        return _googlenet(config.classes)
    return SmallResNet(
        config.stem, config.widths, config.blocks, config.classes, zero_last_gamma=config.zero_last_gamma
    )


def _googlenet(classes: int) -> nn.Module:
    """torchvision's GoogLeNet, with batch-norm behind every convolution as Kumar et al. 2017 train it.

    Without the auxiliary heads and the dropout of Szegedy et al. 2014: they were there to make the network train and
    not to overfit before there was batch-norm, and Ioffe and Szegedy 2015 leave them out with it. An auxiliary head
    would be a second loss that no recipe speaks of; dropout would draw random numbers that a resumed run cannot repeat.
    """
    return googlenet(weights=None, num_classes=classes, aux_logits=False, init_weights=True, dropout=0.0)


class SmallResNet(nn.Module):
    """A ResNet for images of 20 to 32 pixels: a 3x3 stem of stride 2 without a pool, then layers of bottleneck blocks.

    stem: channels of the first convolution.
    widths, blocks: one number a layer; every layer but the first halves the image in its first block.
    zero_last_gamma: whether every block starts as its shortcut.
    Input (n, 3, h, w) fp32, output (n, classes) fp32.
    """

    def __init__(
        self, stem: int, widths: list[int], blocks: list[int], classes: int, *, zero_last_gamma: bool = True
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, stem, kernel_size=3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        self.relu = nn.ReLU(inplace=True)
        channels = stem
        self.layers: list[str] = []
        for index, (width, count) in enumerate(zip(widths, blocks, strict=True), start=1):
            self.layers.append(f"layer{index}")
            self.add_module(f"layer{index}", _layer(channels, width, count, stride=1 if index == 1 else 2))
            channels = width * Bottleneck.expansion
        self.fc = nn.Linear(channels, classes)
        _initialise(self, zero_last_gamma=zero_last_gamma)

    def forward(self, images: Tensor) -> Tensor:
        features = self.relu(self.bn1(self.conv1(images)))
        for name in self.layers:
            features = getattr(self, name)(features)
        logits: Tensor = self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(features, 1), 1))
        return logits


def _layer(channels: int, width: int, count: int, *, stride: int) -> nn.Sequential:
    blocks: list[nn.Module] = []
    out = width * Bottleneck.expansion
    for index in range(count):
        first = index == 0
        shortcut = None
        if first and (stride != 1 or channels != out):
            shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))
        blocks.append(Bottleneck(channels if first else out, width, stride if first else 1, shortcut))
    return nn.Sequential(*blocks)


def _initialise(model: nn.Module, *, zero_last_gamma: bool) -> None:
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, Bottleneck) and zero_last_gamma:
            nn.init.zeros_(module.bn3.weight)
