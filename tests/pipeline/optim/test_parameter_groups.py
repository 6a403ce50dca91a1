"""Weight decay by a recipe's choice: of batch-norm and biases, by module type."""

import pytest

from jobs.compose import compose
from pipeline.models import build
from pipeline.optim.parameter_groups import parameter_groups


def names_of_plain(experiment: str) -> set[str]:
    """Names of the parameters that an experiment does not decay."""
    config = compose([f"exp={experiment}"])
    model = build(config.model)
    by_id = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = parameter_groups(model, config.optim.no_decay)
    found = {by_id[id(one)] for group in groups if group.get("weight_decay") == 0.0 for one in group["params"]}
    assert sum(len(group["params"]) for group in groups) == len(by_id)
    assert {by_id[id(one)] for group in groups if group["adapt"] for one in group["params"]} == set(
        by_id.values()
    ) - found
    return found


def of_batch_norm(experiment: str) -> set[str]:
    names = [name for name, _ in build(compose([f"exp={experiment}"]).model).named_parameters()]
    return {name for name in names if ".bn" in name or name.startswith("bn") or "downsample.1" in name}


@pytest.mark.parametrize("experiment", ["exp5", "jia"])
def test_batch_norm_and_biases_are_plain_by_module_type(experiment: str) -> None:
    assert names_of_plain(experiment) == of_batch_norm(experiment) | {"fc.bias"}


def test_goyals_recipe_decays_biases_and_not_batch_norm() -> None:
    assert names_of_plain("goyal") == of_batch_norm("goyal")


@pytest.mark.parametrize("experiment", ["he", "akiba"])
def test_these_decay_everything(experiment: str) -> None:
    assert names_of_plain(experiment) == set()
