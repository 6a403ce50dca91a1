"""RMSprop warm-up (Akiba et al. 2017, arXiv 1711.04325): an update that begins as RMSprop's and ends as momentum SGD's.

For a weight w with gradient g, the L2 penalty added:

    s <- decay * s + (1 - decay) * g^2
    d <- momentum * d - (alpha_SGD + alpha_RMS / (sqrt(s) + eps)) * g
    w <- w + lr * d

LR is outside the buffer d, as in torch's SGD: with alpha_SGD = 1 and alpha_RMS = 0 it is that SGD. The alphas are the
schedule's (rmsprop_shares.py).
"""

from typing import Any

import torch
from torch import Tensor

from pipeline.optim.multi_tensor import MultiTensorOptimizer, decayed


class RMSpropWarmup(MultiTensorOptimizer):
    """lr, momentum, alpha_sgd, alpha_rms: may be changed between steps, in every group, as the schedule asks."""

    def __init__(
        self, params: Any, *, lr: float, momentum: float, weight_decay: float, decay: float, eps: float
    ) -> None:
        """decay: of the running mean of squared gradients. eps: added to its root."""
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "decay": decay,
            "eps": eps,
            "alpha_sgd": 1.0,
            "alpha_rms": 0.0,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        squares = [self._buffer(weight, "square") for weight in weights]
        deltas = [self._buffer(weight, "delta") for weight in weights]
        gathered = decayed(weights, gradients, group["weight_decay"])
        torch._foreach_mul_(squares, group["decay"])
        torch._foreach_addcmul_(squares, gathered, gathered, value=1 - group["decay"])
        shares = torch._foreach_sqrt(squares)
        torch._foreach_add_(shares, group["eps"])
        torch._foreach_reciprocal_(shares)
        torch._foreach_mul_(shares, group["alpha_rms"])
        torch._foreach_add_(shares, group["alpha_sgd"])
        torch._foreach_mul_(gathered, shares)
        torch._foreach_mul_(deltas, group["momentum"])
        torch._foreach_sub_(deltas, gathered)
        torch._foreach_add_(weights, deltas, alpha=group["lr"])
