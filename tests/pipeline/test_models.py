"""The networks: torchvision's names, the papers' kinds of blocks, He's initialisation, last gamma at zero or one."""

import math

import torch
from torch import nn
from torchvision.models import resnet50
from torchvision.models.resnet import Bottleneck

from jobs.compose import compose
from pipeline.models import build


def small() -> nn.Module:
    torch.manual_seed(0)
    return build(compose(["exp=exp5"]).model)


def test_imagenets_network_is_torchvisions_resnet50() -> None:
    model = build(compose(["model=resnet50", "model.classes=1000"]).model)
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    assert shapes == {name: value.shape for name, value in resnet50().state_dict().items()}
    assert sum(parameter.numel() for parameter in model.parameters()) == 25_557_032  # torchvision's documentation


def test_the_last_gamma_of_every_block_is_zero_so_a_block_starts_as_its_shortcut() -> None:
    for model in (small(), build(compose(["model=resnet50"]).model)):
        blocks = [module for module in model.modules() if isinstance(module, Bottleneck)]
        assert blocks
        assert all(torch.count_nonzero(block.bn3.weight) == 0 for block in blocks)


def test_a_recipe_may_have_it_at_one() -> None:
    for words in (["exp=he"], ["exp=he", "model=resnet50"]):
        model = build(compose(words).model)
        blocks = [module for module in model.modules() if isinstance(module, Bottleneck)]
        assert blocks
        assert all(torch.equal(block.bn3.weight, torch.ones_like(block.bn3.weight)) for block in blocks)


def test_googlenet_is_torchvisions_with_batch_norm_and_without_a_second_loss_or_random_numbers() -> None:
    model = build(compose(["exp=kumar", "model=googlenet", "model.classes=1000"]).model)
    assert sum(parameter.numel() for parameter in model.parameters()) == 6_624_904  # torchvision's documentation
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    assert [one.out_channels for one in convolutions] == [one.num_features for one in norms]
    images = torch.zeros(2, 3, 16, 16)
    assert torch.equal(model(images), model(images))  # as in training
    assert model(images).shape == (2, 1000)


def test_convolutions_start_as_he_has_it() -> None:
    for module in small().modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 4000:
            fan_out = module.out_channels * module.kernel_size[0] * module.kernel_size[1]
            assert abs(module.weight.std().item() / math.sqrt(2 / fan_out) - 1) < 0.1


def test_names_are_torchvisions() -> None:
    assert set(small().state_dict()) <= set(resnet50().state_dict())


def test_it_takes_images_of_any_small_size() -> None:
    model = small()
    for size in (20, 24, 28, 32):
        assert model(torch.zeros(2, 3, size, size)).shape == (2, 10)


def test_the_same_seed_gives_the_same_weights() -> None:
    one, other = small().state_dict(), small().state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
