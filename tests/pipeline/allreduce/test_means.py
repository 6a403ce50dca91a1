"""Means of means: weighed by workers, exact where nothing is to be rounded, with NaN and Inf carried through."""

import math

import pytest
import torch

from pipeline.allreduce.means import Buffers, fold

TYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", TYPES)
def test_every_worker_weighs_the_same(dtype: torch.dtype) -> None:
    # Mine stands for 3 workers with 4, the others for 1 with 8 and for 4 with 2: (12 + 8 + 8) / 8.
    mine = torch.full((5,), 4.0, dtype=dtype)
    fold(mine, [(torch.full((5,), 8.0, dtype=dtype), 1), (torch.full((5,), 2.0, dtype=dtype), 4)], Buffers(), own=3)
    assert mine.tolist() == [3.5] * 5


@pytest.mark.parametrize("dtype", TYPES[1:])
@pytest.mark.parametrize("value", [2.0**-24, 2.0**-14, 1 / 3, 1.0, 65_000.0])
def test_equal_numbers_come_out_as_they_are_whatever_their_number_of_workers(dtype: torch.dtype, value: float) -> None:
    for before in (1, 2, 3, 33, 543, 2175):
        mine = torch.full((3,), value, dtype=dtype)
        theirs = mine.clone()
        fold(mine, [(theirs, before)], Buffers())
        assert torch.equal(mine, theirs), before


def test_in_fp32_equal_numbers_come_out_within_two_roundings() -> None:
    for before in (1, 2, 3, 33, 543, 2175):
        mine = torch.full((3,), 1 / 3)
        fold(mine, [(mine.clone(), before)], Buffers())
        torch.testing.assert_close(mine, torch.full((3,), 1 / 3), rtol=2 * 2.0**-24, atol=0)


@pytest.mark.parametrize("dtype", TYPES)
def test_nan_and_infinity_are_carried_through(dtype: torch.dtype) -> None:
    mine = torch.tensor([1.0, 1.0, 1.0, math.inf], dtype=dtype)
    fold(mine, [(torch.tensor([math.nan, math.inf, -math.inf, -math.inf], dtype=dtype), 2)], Buffers())
    assert mine[0].isnan()
    assert mine[1:3].tolist() == [math.inf, -math.inf]
    assert mine[3].isnan()


def test_nothing_received_changes_nothing() -> None:
    mine = torch.tensor([0.1, -3.0], dtype=torch.float16)
    before = mine.clone()
    fold(mine, [], Buffers())
    assert torch.equal(mine, before)


def test_buffers_are_used_again_by_what_is_alike_and_by_nothing_else() -> None:
    buffers, tensor = Buffers(), torch.ones(3)
    first = buffers.like(tensor)
    assert buffers.like(torch.zeros(3)) is first
    others = [buffers.like(tensor, place=1), buffers.like(tensor, torch.float16), buffers.like(torch.ones(4))]
    assert len({other.data_ptr() for other in [first, *others]}) == 4
