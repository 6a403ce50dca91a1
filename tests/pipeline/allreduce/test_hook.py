"""The hook on DistributedDataParallel: what plain DDP gives, also with several buckets and under accumulation."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pipeline.allreduce.hook import build, register
from tests.worlds import run_world


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(17, 300), nn.ReLU(), nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 5))


def gradients(model: DistributedDataParallel, rank: int, micro_batches: int) -> list[torch.Tensor]:
    """Gradients of one update, after one that lets DDP rebuild its buckets."""
    for update in range(2):
        model.zero_grad()
        for index in range(micro_batches):
            images = torch.randn(8, 17, generator=torch.Generator().manual_seed(1000 * update + 10 * rank + index))
            if index < micro_batches - 1:
                with model.no_sync():
                    model(images).square().mean().backward()
            else:
                model(images).square().mean().backward()
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


CASES = [(name, wire, 1) for name in ("torus", "native") for wire in ("fp32", "fp16", "bf16")] + [("torus", "fp32", 3)]
"""All-reduce, wire, micro-batches."""

BOUNDS = {"fp32": 1e-6, "fp16": 2e-3, "bf16": 2e-2}


def compare(rank: int, size: int, store: dist.Store) -> list[float]:
    """Of each case the largest difference to plain DDP, over the largest gradient."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    mesh = dist.device_mesh.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("v", "h"))
    groups: dict[str, Any] = {"row": mesh.get_group("h"), "column": mesh.get_group("v"), "world": dist.group.WORLD}
    found = []
    for name, wire, micro_batches in CASES:
        hooked = DistributedDataParallel(network(), bucket_cap_mb=0.05, gradient_as_bucket_view=True)
        all_reduce = build(name, wire, device=torch.device("cpu"), **groups)
        register(hooked, all_reduce)
        plain = DistributedDataParallel(network(), bucket_cap_mb=0.05)
        ours, theirs = gradients(hooked, rank, micro_batches), gradients(plain, rank, micro_batches)
        assert all_reduce.exposed_s() > 0
        all_reduce.close()
        largest = max(gradient.abs().max().item() for gradient in theirs)
        found.append(max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True)) / largest)
    return found


@pytest.fixture(scope="module")
def differences() -> list[float]:
    """Of each case the largest over the workers."""
    return [max(of_case) for of_case in zip(*run_world(4, compare), strict=True)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}, {case[1]}, {case[2]} micro-batches")
def test_gradients_are_plain_ddps(differences: list[float], case: tuple[str, str, int]) -> None:
    assert differences[CASES.index(case)] < BOUNDS[case[1]]
