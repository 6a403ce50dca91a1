"""From a recipe to its optimiser: the right one, the schedule's values in every group, resumed to the bit."""

import io

import pytest
import torch
from torch import nn

from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.config.optim_checks import OPTIMISERS
from pipeline.optim.build import BUILDERS, build, place
from pipeline.optim.lars import LARS
from pipeline.optim.rmsprop_warmup import RMSpropWarmup
from pipeline.optim.schedule import position
from pipeline.optim.sgd import CaffeSGD

KINDS = {
    "exp5": LARS, "jia": LARS, "he": CaffeSGD, "goyal": torch.optim.SGD, "smith": torch.optim.SGD,
    "kumar": torch.optim.SGD, "akiba": RMSpropWarmup,
}  # fmt: skip


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_there_are_as_many_names_as_optimisers() -> None:
    assert set(BUILDERS) == set(OPTIMISERS)


@pytest.mark.parametrize("experiment", KINDS)
def test_a_recipe_has_its_optimiser(experiment: str) -> None:
    optim = compose([f"exp={experiment}"]).optim
    optimizer = build(optim, model())
    assert type(optimizer) is KINDS[experiment]
    decays = [group["weight_decay"] for group in optimizer.param_groups]
    assert decays == [1e-4, 0.0] if optim.no_decay else [1e-4]
    nesterov = [group.get("nesterov", False) for group in optimizer.param_groups]
    assert set(nesterov) == {experiment in ("goyal", "smith", "kumar")}


@pytest.mark.parametrize("experiment", ["he", "goyal", "akiba", "exp5"])
def test_a_stopped_optimiser_goes_on_to_the_bit(experiment: str) -> None:
    whole, stopped = trained(experiment, stops=[12]), trained(experiment, stops=[1, 5, 12])
    for name, value in whole.items():
        assert torch.equal(stopped[name], value), name


def trained(experiment: str, stops: list[int]) -> dict[str, torch.Tensor]:
    """Weights after updates around the first end of an epoch; at each stop all goes through a file to new objects."""
    config = compose([f"exp={experiment}"])
    plan = make_plan(config)
    first = plan.first_update(1) - 6
    network = model()
    optimizer = build(config.optim, network)
    done = 0
    for stop in stops:
        for update in range(done, stop):
            place(optimizer, position(config.optim, plan, first + update))
            images = torch.randn(8, 3, generator=torch.Generator().manual_seed(update))
            optimizer.zero_grad()
            network(images).square().sum().backward()
            optimizer.step()
        done = stop
        file = io.BytesIO()
        torch.save([network.state_dict(), optimizer.state_dict()], file)
        file.seek(0)
        of_model, of_optimizer = torch.load(file, weights_only=True)
        network = model()
        network.load_state_dict(of_model)
        optimizer = build(config.optim, network)
        optimizer.load_state_dict(of_optimizer)
    return dict(network.state_dict())


def test_every_group_has_the_values_of_the_position() -> None:
    config = compose(["exp=akiba"])
    here = position(config.optim, make_plan(config), 400)  # epoch 10
    optimizer = build(config.optim, model())
    place(optimizer, here)
    for group in optimizer.param_groups:
        found = [group[name] for name in ("lr", "momentum", "alpha_sgd", "alpha_rms")]
        assert found == [here.lr, 0.9, 0.5, here.alpha_rms]
