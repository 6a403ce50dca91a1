"""Mixed precision: autocast for the compute type, and dynamic loss scaling.

Whether an update is skipped is decided on averaged gradients, which every worker holds to the bit alike, so all skip or
none does. The scale only multiplies by powers of two and is alike everywhere for the same reason.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.amp.grad_scaler import GradScaler

from pipeline.config.schema import PrecisionConfig

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def autocast(config: PrecisionConfig, device: str) -> AbstractContextManager[object]:
    """The context of a forward pass; none where arithmetic is fp32."""
    if config.compute == "fp32":
        return nullcontext()
    return torch.autocast(device, dtype=DTYPES[config.compute])


def loss_scaler(config: PrecisionConfig, device: str) -> GradScaler:
    """torch's scaler; disabled where loss_scale is null."""
    return GradScaler(
        device,
        init_scale=config.loss_scale or 1.0,
        growth_interval=config.loss_scale_growth_interval,
        enabled=config.loss_scale is not None,
    )
