"""LARS (You et al. 2017, arXiv 1708.03888) in the form of Sony's own code (NNabla's public LARS solver).

For a weight w with gradient g:

    lambda = coefficient * |w| / (|g| + weight_decay * |w|)      1 where |w| < eps
    v <- momentum * v + lr * lambda * (g + weight_decay * w)
    w <- w - v

eps joins the denominator only where the denominator is below eps. The learning rate is inside the momentum buffer, as
in You et al., algorithm 1; PyTorch-style momentum keeps it outside and differs exactly when LR changes. Batch-norm's
parameters and biases take lambda = 1 and no weight decay. All arithmetic runs as multi-tensor operations.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase


class LARS(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling.

    params: groups as `parameter_groups` makes them; a group's `adapt` says whether lambda and weight decay apply.
    lr, momentum: may be changed between steps, in every group, as the schedule asks.
    """

    def __init__(
        self,
        params: Any,
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        coefficient: float,
        eps: float,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "coefficient": coefficient,
            "eps": eps,
            "adapt": True,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Apply one update. Parameters without a gradient are left alone."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [p for p in group["params"] if p.grad is not None]
            if weights:
                self._update(group, weights)
        return loss

    def _update(self, group: dict[str, Any], weights: list[Tensor]) -> None:
        gradients: list[Tensor] = [w.grad for w in weights if w.grad is not None]
        velocities = [self._velocity(w) for w in weights]
        torch._foreach_mul_(velocities, group["momentum"])
        if not group["adapt"]:
            torch._foreach_add_(velocities, gradients, alpha=-group["lr"])
        else:
            decayed = torch._foreach_add(gradients, weights, alpha=group["weight_decay"])
            rates = trust_ratios(weights, gradients, group["coefficient"], group["weight_decay"], group["eps"])
            _scale(decayed, rates.mul_(-group["lr"]))
            torch._foreach_add_(velocities, decayed)
        torch._foreach_add_(weights, velocities)

    def _velocity(self, weight: Tensor) -> Tensor:
        """The buffer that is added to the weight: -v of the formula, so that no negation is stored."""
        state = self.state[weight]
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(weight)
        velocity: Tensor = state["velocity"]
        return velocity


def trust_ratios(
    weights: list[Tensor], gradients: list[Tensor], coefficient: float, weight_decay: float, eps: float
) -> Tensor:
    """lambda of every weight, shape (number of weights,), fp32, on the weights' device; no host synchronisation."""
    weight_norms = torch.stack(list(torch._foreach_norm(weights)))
    gradient_norms = torch.stack(list(torch._foreach_norm(gradients)))
    denominators = gradient_norms + weight_decay * weight_norms
    denominators = torch.where(denominators < eps, denominators + eps, denominators)
    return torch.where(weight_norms < eps, 1.0, coefficient * weight_norms / denominators)


def _scale(tensors: Sequence[Tensor], factors: Tensor) -> None:
    """Multiply each tensor by its factor, (number of tensors,): on a GPU without reading the factors back."""
    if factors.device.type == "cpu":
        torch._foreach_mul_(list(tensors), factors.tolist())  # numbers are ten times cheaper here than tensors of one
    else:
        torch._foreach_mul_(list(tensors), list(factors.unbind()))


def parameter_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Two groups: weights that LARS adapts and decays, and those it leaves plain.

    Plain are, by module type and not by shape or name, the parameters of batch-norm and the biases of every module.
    """
    plain_ids = {
        id(parameter)
        for module in model.modules()
        for name, parameter in module.named_parameters(recurse=False)
        if isinstance(module, _NormBase) or name == "bias"
    }
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in parameters if id(p) not in plain_ids], "adapt": True},
        {"params": [p for p in parameters if id(p) in plain_ids], "adapt": False, "weight_decay": 0.0},
    ]
