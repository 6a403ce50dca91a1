"""Which numbers of workers can stand for a recipe's, worked by hand."""

import pytest

from pipeline.config.scale import (
    is_to_scale,
    possible_workers,
    scaled_batch,
    scaled_samples,
    scaled_workers,
    split,
    squarest_grid,
)
from pipeline.errors import UserError


@pytest.mark.parametrize(
    ("workers", "grid"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (5, (1, 5)), (6, (2, 3)), (12, (3, 4)), (64, (8, 8))]
)
def test_squarest_grid(workers: int, grid: tuple[int, int]) -> None:
    assert squarest_grid(workers) == grid


def test_small_recipes_run_on_one_worker() -> None:
    assert scaled_workers(8, 544) == 1
    assert scaled_workers(256, 544) == 1
    assert scaled_workers(1024, 544) == 2
    assert scaled_workers(2048, 544) == 4
    assert scaled_samples(1_281_167, 1024, 544) == 2502
    assert scaled_samples(1_281_167, 2048, 544) == 2502


def test_small_recipes_take_their_share_of_images_and_a_floor() -> None:
    assert {scaled_samples(1_281_167, gpus, 544) for gpus in (8, 256, 543)} == {2355}
    assert scaled_batch(32, 256, 544, 16) == 16  # 8,192 / 544 = 15.06
    assert scaled_batch(64, 256, 544, 16) == 30  # 16,384 / 544 = 30.1
    assert scaled_batch(32, 8, 544, 32) == 32  # 256 / 544 = 0.5
    assert scaled_batch(32, 544, 544, 64) == 32
    assert [is_to_scale(batches, 256, 544, 16) for batches in ([32], [64], [64, 32])] == [False, True, False]
    assert is_to_scale([32], 8, None, 16)


def test_full_size_is_left_alone() -> None:
    assert scaled_batch(32, 8, None, 16) == 32
    assert (scaled_workers(2176, None), scaled_samples(1_281_167, 2176, None)) == (2176, 1_281_167)


def test_possible_workers_divide_or_are_divided() -> None:
    assert possible_workers(4, [16, 32, 56]) == [1, 2, 4, 8, 16, 32]
    assert possible_workers(3, [4]) == [1, 3, 6, 12]


def test_split_gives_micro_batches_or_shrinks() -> None:
    assert split(4, 1, [16]) == (4, 1)
    assert split(4, 4, [16]) == (1, 1)
    assert split(4, 8, [16]) == (1, 2)


def test_no_worker_is_too_few() -> None:
    with pytest.raises(UserError, match="at least one"):
        split(4, 0, [16])
