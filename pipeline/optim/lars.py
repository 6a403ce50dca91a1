"""LARS (You et al. 2017, arXiv 1708.03888) in the form of Sony's own code (NNabla's public LARS solver).

For a weight w with gradient g:

    lambda = coefficient * |w| / (|g| + weight_decay * |w|)      1 where |w| < eps
    v <- momentum * v + lr * lambda * (g + weight_decay * w)
    w <- w - v

eps joins the denominator only where the denominator is below eps. The learning rate is inside the momentum buffer, as
in You et al., algorithm 1; PyTorch-style momentum keeps it outside and differs exactly when LR changes. Parameters
without weight decay (batch-norm's and biases, in most recipes) take lambda = 1. All arithmetic runs as multi-tensor
operations.

Gradients come in as fp32, whatever the forward and backward pass computed in: weights are fp32 masters, and gradients
are averaged into their type and unscaled there, so norms do not overflow as those of fp16 would (Jia et al. 2018,
1807.11205).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pipeline.optim.multi_tensor import MultiTensorOptimizer, decayed


class LARS(MultiTensorOptimizer):
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

    def _update(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        velocities = [self._buffer(w, "velocity") for w in weights]  # -v of the formula: no negation is stored
        torch._foreach_mul_(velocities, group["momentum"])
        if not group["adapt"]:
            torch._foreach_add_(velocities, gradients, alpha=-group["lr"])
        else:
            gathered = decayed(weights, gradients, group["weight_decay"])
            rates = trust_ratios(weights, gradients, group["coefficient"], group["weight_decay"], group["eps"])
            _scale(gathered, rates.mul_(-group["lr"]))
            torch._foreach_add_(velocities, gathered)
        torch._foreach_add_(weights, velocities)


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
