"""The hook on DistributedDataParallel: what plain DDP gives, also with several buckets and under accumulation."""

import itertools
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pipeline.allreduce.contract import AllReduce
from pipeline.allreduce.hook import SCHEMES, WIRES, Options, build, register
from tests.pipeline.allreduce.layouts import join
from tests.worlds import run_world

CPU = torch.device("cpu")
BOUNDS = {"fp32": 1e-6, "fp16": 2e-3, "bf16": 2e-2}
"""A few roundings of the type, relative to the largest gradient."""
UPDATES = 20


def network() -> nn.Sequential:
    """Three buckets and more at `bucket_cap_mb` 0.05."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(17, 300), nn.ReLU(), nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 5))


def images(update: int, rank: int, micro_batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(10_000 * update + 100 * rank + micro_batch)
    return torch.randn(8, 17, generator=generator)


def backward(model: DistributedDataParallel, update: int, rank: int, micro_batches: int) -> float:
    """Gradients of one update, averaged with the last micro-batch; its loss on this worker."""
    loss = torch.zeros(())
    for index in range(micro_batches):
        with model.no_sync() if index < micro_batches - 1 else nullcontext():
            loss = (model(images(update, rank, index)) - 1).square().mean()
            loss.backward()
    return loss.item()


def gradients(model: DistributedDataParallel, rank: int, micro_batches: int) -> list[Tensor]:
    """Gradients of one update, after one that lets DDP rebuild its buckets."""
    for update in range(2):
        model.zero_grad()
        backward(model, update, rank, micro_batches)
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def hooked(all_reduce: AllReduce) -> DistributedDataParallel:
    model = DistributedDataParallel(network(), bucket_cap_mb=0.05, gradient_as_bucket_view=True)
    register(model, all_reduce)
    return model


def difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest, over the largest gradient."""
    largest = max(gradient.abs().max().item() for gradient in theirs)
    return max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True)) / largest


def losses(all_reduce: AllReduce, rank: int) -> list[float]:
    """The mean loss over the workers, by update, of training with momentum."""
    model = hooked(all_reduce)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = []
    for update in range(UPDATES):
        optimizer.zero_grad()
        found.append(backward(model, update % 4, rank, 1))
        optimizer.step()
    every = torch.tensor(found, dtype=torch.float64)
    dist.all_reduce(every)
    return (every / dist.get_world_size()).tolist()


def compare(rank: int, _: int, store: dist.Store) -> dict[Any, Any]:
    """By (algorithm, wire, micro-batches) the difference to plain DDP, and the times; by algorithm the losses."""
    communicators = join(rank, store, (2, 2))
    found: dict[Any, Any] = {}
    plain = {n: gradients(DistributedDataParallel(network(), bucket_cap_mb=0.05), rank, n) for n in (1, 3)}
    for name in SCHEMES:
        for wire, dtype in WIRES.items():
            all_reduce = build(name, communicators, Options(dtype, chunk_bytes=65536, ring_from_bytes=100_000), CPU)
            for micro_batches in (1, 3):
                ours = gradients(hooked(all_reduce), rank, micro_batches)
                found[name, wire, micro_batches] = (difference(ours, plain[micro_batches]), all_reduce.take_times())
            if wire == "fp32":
                found[name] = losses(all_reduce, rank)
            all_reduce.close()
    communicators.close()
    return found


@pytest.fixture(scope="module")
def compared() -> list[dict[Any, Any]]:
    """By rank."""
    return run_world(4, compare)


@pytest.mark.parametrize(("name", "wire"), list(itertools.product(SCHEMES, WIRES)))
def test_gradients_are_plain_ddps_with_one_micro_batch_and_with_three(
    compared: list[dict[Any, Any]], name: str, wire: str
) -> None:
    for micro_batches in (1, 3):
        for of_rank in compared:
            assert of_rank[name, wire, micro_batches][0] < BOUNDS[wire]


@pytest.mark.parametrize(("name", "wire"), list(itertools.product(SCHEMES, WIRES)))
def test_it_knows_what_it_took_and_what_the_backward_pass_did_not_hide(
    compared: list[dict[Any, Any]], name: str, wire: str
) -> None:
    for of_rank in compared:
        _, (exposed_s, total_s) = of_rank[name, wire, 1]
        assert 0 < exposed_s <= total_s


@pytest.mark.parametrize("name", [name for name in SCHEMES if name != "native"])
def test_training_goes_as_with_the_backends_own(compared: list[dict[Any, Any]], name: str) -> None:
    curve = compared[0]["native"]
    assert len(curve) == UPDATES
    assert curve[-1] < curve[0] / 2
    assert compared[0][name] == pytest.approx(curve, rel=1e-4)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(KeyError):
        build("no-such", None, Options(torch.float32, chunk_bytes=1), CPU)  # type: ignore[arg-type]
