"""Operation counts and buckets, against torchvision's networks and torch's own bucket rule."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torchvision.models import resnet50

from pipeline import models
from pipeline.config.schema import ModelConfig
from pipeline.errors import UserError
from pipeline.estimate.buckets import buckets
from pipeline.estimate.layers import Layer, layers
from pipeline.estimate.step import forward_share

LARGE = ModelConfig(name="resnet50", classes=1000)
SMALL = ModelConfig(name="small_resnet", classes=10, stem=16, widths=[32, 64], blocks=[1, 2])


def network(model: ModelConfig) -> nn.Module:
    """Without memory for its weights."""
    with torch.device("meta"):
        return resnet50(num_classes=model.classes) if model.name == "resnet50" else models.build(model)


def counted(module: nn.Module, size: int) -> dict[str, int]:
    """Multiplications of every convolution and of the classifier, counted where torch runs them."""
    found = {}

    def hook(name: str) -> object:
        def count(layer: nn.Module, _: object, out: torch.Tensor) -> None:
            weight = layer.weight
            assert isinstance(weight, torch.Tensor)
            found[name] = weight.numel() * (out[0, 0].numel() if out.ndim == 4 else 1)

        return count

    for name, layer in module.named_modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(hook(name))  # type: ignore[arg-type]
    module.eval()(torch.empty(1, 3, size, size, device="meta"))
    return found


@pytest.mark.parametrize(("model", "size"), [(LARGE, 224), (LARGE, 160), (SMALL, 16), (SMALL, 28)])
def test_every_layer_has_the_multiplications_and_parameters_of_the_network(model: ModelConfig, size: int) -> None:
    module, found = network(model), layers(model, size)
    assert sorted(one.multiplications for one in found) == sorted(counted(module, size).values())
    assert [count for one in found for count in one.parameters] == [one.numel() for one in module.parameters()]


def test_resnet50_has_the_published_size() -> None:
    found = layers(LARGE, 224)
    assert sum(sum(one.parameters) for one in found) == 25_557_032  # torchvision's table
    assert sum(one.multiplications for one in found) / 1e9 == pytest.approx(4.09, abs=0.005)  # the same


def test_a_network_that_is_no_resnet_is_refused_in_one_line() -> None:
    with pytest.raises(UserError, match="model googlenet: its layers are not counted, so nothing can be estimated"):
        layers(ModelConfig(name="googlenet", classes=1000), 224)


def test_the_first_layer_passes_no_gradient_on() -> None:
    stem, *others = layers(LARGE, 224)
    assert stem.backward_multiplications == stem.multiplications
    assert all(one.backward_multiplications == 2 * one.multiplications for one in others)
    assert forward_share([Layer("all", (1,), 10)]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("model", [LARGE, SMALL])
@pytest.mark.parametrize(("cap_mb", "first_mb"), [(25.0, None), (25.0, 1.0), (0.05, None), (1000.0, None)])
def test_buckets_are_torchs(model: ModelConfig, cap_mb: float, first_mb: float | None) -> None:
    parameters = [torch.empty(one.shape) for one in reversed(list(network(model).parameters()))]
    limits = [int((cap_mb if first_mb is None else first_mb) * 2**20), int(cap_mb * 2**20)]
    theirs, _ = dist._compute_bucket_assignment_by_size(parameters, limits)
    found = buckets(layers(model, 224), cap_mb, first_mb)
    assert [one.elements for one in found] == [sum(parameters[i].numel() for i in indices) for indices in theirs]
    assert [one.ready for one in found] == sorted(one.ready for one in found)
    assert found[-1].ready == 1.0
