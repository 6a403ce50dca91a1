"""Weights and gradients for optimisers that are compared step by step."""

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.optim import Optimizer


def weights(count: int) -> list[list[nn.Parameter]]:
    """`count` equal sets of two parameters."""
    torch.manual_seed(0)
    first = [torch.randn(5, 7), torch.randn(11)]
    return [[nn.Parameter(one.clone()) for one in first] for _ in range(count)]


def drive(
    sets: Sequence[Sequence[nn.Parameter]],
    optimizers: Sequence[Optimizer],
    prepare: Callable[[int], None],
    steps: int = 12,
) -> None:
    """Steps of each optimiser on its set, with the same gradients; `prepare(step)` comes before each."""
    for step in range(steps):
        prepare(step)
        for parameters in sets:
            for index, parameter in enumerate(parameters):
                generator = torch.Generator().manual_seed(100 * step + index)
                parameter.grad = torch.randn(parameter.shape, generator=generator)
        for optimizer in optimizers:
            optimizer.step()
