"""SGD with momentum, plain or Nesterov's, in the two forms that papers have.

    LR outside    u <- m * u + g          w <- w - lr * u       (9) of Goyal et al. 2017 (1706.02677)
    LR inside     v <- m * v + lr * g     w <- w - v            (10); Caffe's, on which He et al. 2015 trained

g is the gradient with the L2 penalty added. While LR stays they are one: v = lr * u. When LR changes from one update to
the next, the second still moves by what it gathered at the old LR. Goyal et al. correct for it:

    v <- m * (lr / lr before) * v + lr * g

which put into v = lr * u is the first form again. So SGD with momentum correction is torch's own SGD, which never
divides by an LR of zero, and `CaffeSGD` is the one without. Nesterov's update looks one step ahead:

    LR outside    w <- w - lr * (g + m * u)
    LR inside     w <- w - (lr * g + m * v)

LARS has its LR inside, as You et al. 2017 (lars.py); RMSprop warm-up outside, as Akiba et al. 2017 (rmsprop_warmup.py).
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from pipeline.optim.multi_tensor import MultiTensorOptimizer, decayed


class CaffeSGD(MultiTensorOptimizer):
    """Momentum SGD with LR inside the velocity, without correction.

    lr, momentum: may be changed between steps, in every group, as the schedule asks.
    """

    def __init__(self, params: Any, *, lr: float, momentum: float, weight_decay: float, nesterov: bool = False) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov})

    def _update(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        velocities = [self._buffer(weight, "velocity") for weight in weights]
        gathered = decayed(weights, gradients, group["weight_decay"])
        torch._foreach_mul_(velocities, group["momentum"])
        torch._foreach_add_(velocities, gathered, alpha=group["lr"])
        if not group["nesterov"]:
            torch._foreach_sub_(weights, velocities)
            return
        torch._foreach_sub_(weights, gathered, alpha=group["lr"])
        torch._foreach_sub_(weights, velocities, alpha=group["momentum"])


def sgd(
    params: Iterable[Any], *, momentum: float, weight_decay: float, nesterov: bool, momentum_correction: bool
) -> torch.optim.Optimizer:
    """The form that a recipe asks for. LR starts at 0: the schedule sets it before the first update."""
    if momentum_correction:
        return torch.optim.SGD(
            params, lr=0.0, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov, foreach=True
        )
    return CaffeSGD(params, lr=0.0, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)
