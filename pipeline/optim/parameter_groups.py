"""Which parameters of a network take weight decay: a recipe's choice, by module type and not by shape or name."""

from collections.abc import Collection
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase


def parameter_groups(model: nn.Module, no_decay: Collection[str]) -> list[dict[str, Any]]:
    """Groups for an optimiser: the parameters with weight decay, and those without, where there are any.

    no_decay: what is in the second, of `batch_norm` (its weights and biases) and `bias` (of every module, batch-norm's
    too). `adapt` of a group says whether LARS gives it a rate of its own: where it decays.
    """
    plain_ids = {
        id(parameter)
        for module in model.modules()
        for name, parameter in module.named_parameters(recurse=False)
        if ("batch_norm" in no_decay and isinstance(module, _NormBase)) or ("bias" in no_decay and name == "bias")
    }
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if id(p) not in plain_ids], "adapt": True},
        {"params": [p for p in parameters if id(p) in plain_ids], "adapt": False, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
