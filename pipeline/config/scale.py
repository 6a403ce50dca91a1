"""Virtual and real workers: which numbers of real workers can stand for a recipe's, and on which grid.

A recipe is written for V virtual workers. W real ones run it faithfully where W divides V (each takes V/W micro-batches
an update) or where V divides W and the per-worker batch stays whole in every stage. The scale model makes V itself
small: one virtual worker stands for `scale` GPUs, and the data set shrinks alike. A recipe of fewer GPUs runs on one
worker, which stands for a whole recipe `scale` times smaller: total batch and data set are divided by `scale`.
Torch-free; pure functions.
"""

from collections.abc import Sequence
from math import gcd, isqrt

from pipeline.errors import UserError
from pipeline.wording import counted


def scaled_workers(gpus: int, scale: int | None) -> int:
    """Virtual workers of a recipe of `gpus` GPUs where one stands for `scale` of them (null: for itself)."""
    return gpus if scale is None else max(1, round(gpus / scale))


def scaled_samples(images: int, gpus: int, scale: int | None) -> int:
    """Training samples an epoch: `images` at full size, the same share an epoch and worker in the scale model."""
    if scale is None:
        return images
    return round(images / scale) if gpus < scale else round(images * scaled_workers(gpus, scale) / gpus)


def scaled_batch(per_worker_batch: int, gpus: int, scale: int | None, smallest: int) -> int:
    """Images that a virtual worker takes in an update: the paper's worker's where there are `scale` GPUs or more.

    smallest: what the only worker of a smaller recipe takes at the least.
    """
    if scale is None or gpus >= scale:
        return per_worker_batch
    return max(smallest, round(per_worker_batch * gpus / scale))


def is_to_scale(batches: Sequence[int], gpus: int, scale: int | None, smallest: int) -> bool:
    """Whether every stage has the paper's share of images, and none has more because `smallest` is the least."""
    return all(scaled_batch(batch, gpus, scale, smallest) == scaled_batch(batch, gpus, scale, 0) for batch in batches)


def squarest_grid(workers: int) -> tuple[int, int]:
    """(vertical, horizontal) with vertical <= horizontal, the nearest to a square: 4 is 2x2, 6 is 2x3, 5 is 1x5."""
    vertical = next(side for side in range(isqrt(workers), 0, -1) if workers % side == 0)
    return vertical, workers // vertical


def can_stand_for(virtual: int, real: int, batches: Sequence[int]) -> bool:
    """Whether `real` workers can run a recipe of `virtual` workers with these per-worker batches."""
    if virtual % real == 0:
        return True
    return real % virtual == 0 and all(batch % (real // virtual) == 0 for batch in batches)


def possible_workers(virtual: int, batches: Sequence[int]) -> list[int]:
    """Every number of real workers that can run the recipe, rising."""
    return divisors(virtual) + [virtual * share for share in divisors(gcd(*batches))[1:]]


def divisors(number: int) -> list[int]:
    """All of them, rising."""
    small = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)})


def split(virtual: int, real: int, batches: Sequence[int], *, workers_per_node: int | None = None) -> tuple[int, int]:
    """How `real` workers share the work of `virtual` ones.

    Returns (micro_batches, shrink): each real worker takes `micro_batches` micro-batches an update, of the recipe's
    per-worker batch divided by `shrink`. One of the two is 1.
    Raises UserError with the numbers of workers that would do, the nearest first.
    """
    if real < 1:
        raise UserError(f"workers={real}: a run needs at least one worker")
    if can_stand_for(virtual, real, batches):
        return (virtual // real, 1) if virtual % real == 0 else (1, real // virtual)
    nearest = sorted(possible_workers(virtual, batches), key=lambda one: (abs(one - real), one))[:8]
    nodes = workers_per_node or 0
    names = [f"{one} ({counted(one // nodes, 'node')})" if nodes and one % nodes == 0 else str(one) for one in nearest]
    raise UserError(
        f"{real} workers can neither divide nor be divided by the recipe's {virtual} with per-worker batches "
        f"{', '.join(map(str, batches))}; these can, the nearest first: {', '.join(names)}"
    )
