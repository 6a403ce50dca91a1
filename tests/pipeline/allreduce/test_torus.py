"""The torus against a flat mean in fp64, on real process groups and, at 34x64, simulated in one process."""

import itertools
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from pipeline.allreduce import torus
from pipeline.allreduce.chunks import ThreadEngine
from pipeline.allreduce.hook import WIRES, build
from pipeline.allreduce.rings import Ring
from tests.worlds import run_world

GRIDS = [(1, 4), (4, 1), (2, 2), (2, 3), (3, 2)]
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
ROUNDING = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
"""Half a unit in the last place, relative: IEEE 754 and bfloat16."""


def sizes(horizontal: int) -> list[int]:
    return [0, 1, horizontal - 1, 1009, 100_003]


def inputs(size: int, rank: int, dtype: torch.dtype, *, largest: bool) -> Tensor:
    """One worker's bucket: random numbers around 1, or random signs of nearly the largest fp16 number."""
    generator = torch.Generator().manual_seed(1000 * size + rank)
    if largest:
        return torch.full((size,), 65_000.0).to(dtype)
    return torch.randn(size, generator=generator).to(dtype)


def average_all(rank: int, world: int, store: dist.Store, algorithm: str) -> dict[Any, tuple[str, float]]:
    """Every case on every grid of this world: (digest of the bytes, largest error over the largest input)."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    found: dict[Any, tuple[str, float]] = {}
    for vertical, horizontal in [grid for grid in GRIDS if grid[0] * grid[1] == world]:
        mesh = dist.device_mesh.init_device_mesh("cpu", (vertical, horizontal), mesh_dim_names=("v", "h"))
        for name, largest in itertools.product(DTYPES, (False, True)):
            all_reduce = build(
                algorithm,
                name,
                row=mesh.get_group("h"),
                column=mesh.get_group("v"),
                world=dist.group.WORLD,  # type: ignore[arg-type]
                device=torch.device("cpu"),
            )
            buckets = [inputs(size, rank, DTYPES[name], largest=largest) for size in sizes(horizontal)]
            futures = [all_reduce(bucket) for bucket in buckets]  # all in flight at once
            for size, bucket, future in zip(sizes(horizontal), buckets, futures, strict=True):
                assert future.wait().data_ptr() == bucket.data_ptr(), "averaged in place"
                every = torch.stack([inputs(size, r, DTYPES[name], largest=largest) for r in range(world)]).double()
                error = (bucket.double() - every.mean(0)).abs().max().item() if size else 0.0
                bound = every.abs().max().item() if size else 1.0
                digest = bucket.view(torch.uint8).numpy().tobytes().hex() if size < 2000 else str(hash_of(bucket))
                found[(vertical, horizontal), name, size, largest] = (digest, error / bound)
            all_reduce.close()
    return found


def native_phases(rank: int, world: int, store: dist.Store) -> list[float]:
    """The torus in the backend's own collectives, as it runs on NCCL, here on gloo."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("v", "h"))
    bucket = torch.arange(7.0) * (rank + 1)
    torus.average(bucket, torus.NativePhases(mesh.get_group("h"), mesh.get_group("v"), torch.float16))
    return bucket.tolist()


def test_the_backends_own_collectives_give_the_same_mean() -> None:
    for averaged in run_world(4, native_phases):
        assert averaged == [2.5 * number for number in range(7)]


def hash_of(bucket: Tensor) -> str:
    import hashlib

    return hashlib.sha256(bucket.view(torch.uint8).numpy().tobytes()).hexdigest()


@pytest.fixture(scope="module", params=["torus", "native"])
def averaged(request: pytest.FixtureRequest) -> list[dict[Any, tuple[str, float]]]:
    """What every rank of a world of 4 and of one of 6 got, merged by rank; ranks 4 and 5 know the second only."""
    four = run_world(4, average_all, request.param)
    six = run_world(6, average_all, request.param)
    return [{**(four[rank] if rank < 4 else {}), **six[rank]} for rank in range(6)]


@pytest.mark.parametrize("largest", [False, True], ids=["around one", "near 65504"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid[0]}x{grid[1]}")
def test_it_is_the_mean_and_every_worker_has_the_same_bits(
    averaged: list[dict[Any, tuple[str, float]]], grid: tuple[int, int], dtype: str, largest: bool
) -> None:
    vertical, horizontal = grid
    roundings = vertical + horizontal + 2  # one a hop, the scaling, the cast back
    for size in sizes(horizontal):
        outcomes = [of_rank[grid, dtype, size, largest] for of_rank in averaged[: vertical * horizontal]]
        assert len({digest for digest, _ in outcomes}) == 1
        assert max(error for _, error in outcomes) <= roundings * ROUNDING[dtype]


class StackedRing(Ring):
    """All rings of a simulated grid at once: tensors have two leading dimensions, (vertical, horizontal).

    axis: the dimension along which neighbours stand: 1 for rows, 0 for columns.
    """

    def __init__(self, vertical: int, horizontal: int, axis: int) -> None:
        super().__init__((vertical, horizontal)[axis], -1)
        self._axis = axis
        shape = (vertical, 1) if axis == 0 else (1, horizontal)
        self._positions = torch.arange(self.size).view(shape).expand(vertical, horizontal)

    def exchange(self, outgoing: Tensor) -> Tensor:
        return outgoing.roll(1, self._axis)

    def _places(self, work: Tensor, back: int) -> Tensor:
        places = (self._positions - back) % self.size
        return places[..., None, None].expand(*work.shape[:2], 1, work.shape[-1])

    def chunk(self, work: Tensor, back: int) -> Tensor:
        return work.gather(2, self._places(work, back)).squeeze(2)

    def add(self, work: Tensor, back: int, received: Tensor) -> None:
        self.put(work, back, self.chunk(work, back) + received)

    def put(self, work: Tensor, back: int, received: Tensor) -> None:
        work.scatter_(2, self._places(work, back), received[:, :, None])


def simulate(buckets: Tensor, wire: torch.dtype) -> Tensor:
    """The torus on buckets of shape (vertical, horizontal, n), one a worker."""
    vertical, horizontal, _ = buckets.shape
    row, column = StackedRing(vertical, horizontal, 1), StackedRing(vertical, horizontal, 0)
    torus.average(buckets, torus.RingPhases(row, column, wire))
    return buckets


def test_at_34x64_small_gradients_survive_that_one_division_by_2176_would_lose() -> None:
    gradient = 2.0**-14  # the smallest normal fp16 number; 2**-14 / 2176 is below half of the smallest subnormal
    assert (torch.tensor(gradient) / 2176).half().item() == 0.0
    averaged = simulate(torch.full((34, 64, 100), gradient), torch.float16)
    torch.testing.assert_close(averaged, torch.full((34, 64, 100), gradient), rtol=0.02, atol=0)


def test_at_34x64_nothing_overflows_near_65504() -> None:
    averaged = simulate(torch.full((34, 64, 100), 65_000.0), torch.float16)
    torch.testing.assert_close(averaged, torch.full((34, 64, 100), 65_000.0), rtol=0.02, atol=0)


def test_at_34x64_random_gradients_are_averaged_alike_on_all_workers() -> None:
    buckets = torch.randn(34, 64, 333, generator=torch.Generator().manual_seed(0))
    expected = buckets.double().mean((0, 1))
    averaged = simulate(buckets.clone(), torch.float16)
    assert (averaged == averaged[0, 0]).all()
    # Errors of about 100 roundings of numbers up to 1/8 (sums of scaled inputs) add up like a random walk.
    assert (averaged[0, 0].double() - expected).abs().max() < 10 * 0.125 * 2.0**-11


def test_an_error_in_the_thread_reaches_the_future() -> None:
    def fail(_: Tensor) -> None:
        raise RuntimeError("the link is down")

    engine = ThreadEngine(fail, "failing")
    future = engine(torch.ones(3))
    with pytest.raises(RuntimeError, match="the link is down"):
        future.wait()
    engine.close()


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(KeyError):
        build("no-such", "fp16", row=None, column=None, world=None, device=torch.device("cpu"))  # type: ignore[arg-type]


def test_every_wire_has_a_type() -> None:
    assert set(WIRES) == set(DTYPES)
