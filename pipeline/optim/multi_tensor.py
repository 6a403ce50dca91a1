"""What optimisers of multi-tensor operations share: one update of all weights of a group that have a gradient."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class MultiTensorOptimizer(torch.optim.Optimizer):
    """A subclass says in `_update` what one update does to a group's weights."""

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
                self._update(group, weights, [w.grad for w in weights if w.grad is not None])
        return loss

    def _update(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        """Change `weights` in place; `gradients` stay as they are."""
        raise NotImplementedError

    def _buffer(self, weight: Tensor, name: str) -> Tensor:
        """What the state keeps for a weight under `name`: its shape, zeros at first."""
        state = self.state[weight]
        if name not in state:
            state[name] = torch.zeros_like(weight)
        buffer: Tensor = state[name]
        return buffer


def decayed(weights: list[Tensor], gradients: list[Tensor], weight_decay: float) -> list[Tensor]:
    """Copies of the gradients with the L2 penalty added: g + weight_decay * w."""
    return list(torch._foreach_add(gradients, weights, alpha=weight_decay))
