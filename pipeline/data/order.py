"""Which samples, in which order, through which window: pure functions of (seed, epoch, sample).

Nothing here depends on the number of workers or on what was drawn before, so a run on another grid sees the same
batches and a resumed run continues to the bit.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.config.plan import Stage
from pipeline.config.schema import WindowConfig

TRIES = 10
"""Windows that torchvision's RandomResizedCrop tries before it takes the central one."""
NUMBERS_A_TRY = 4
MIRROR = TRIES * NUMBERS_A_TRY
"""Place of the mirror's random number behind those of the windows."""


def permutation(seed: int, epoch: int, samples: int) -> NDArray[np.int64]:
    """The order of an epoch: every number below `samples` once, shape (samples,)."""
    return np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(samples)


def update_samples(order: NDArray[np.int64], update_in_epoch: int, stage: Stage) -> NDArray[np.int64]:
    """The samples of one update, shape (total_batch,). The last, short batch of an epoch wraps around to its start."""
    first = update_in_epoch * stage.total_batch
    return np.take(order, np.arange(first, first + stage.total_batch), mode="wrap")


def worker_samples(samples: NDArray[np.int64], worker: int, stage: Stage) -> NDArray[np.int64]:
    """A real worker's part of an update, shape (micro_batches, per_worker_batch).

    Virtual workers take neighbouring parts and a real worker stands for neighbouring virtual ones, so a micro-batch
    holds the same samples whatever the number of workers.
    """
    return samples.reshape(-1, stage.micro_batches, stage.per_worker_batch)[worker]


STAND_INS = 64
"""Training samples, the first of the index, of which one stands in for a sample that cannot be decoded: every node can
keep so few."""


def stand_ins(sample: int, samples: int) -> NDArray[np.int64]:
    """Which samples may stand in for a training sample, in the order in which they are tried."""
    count = min(STAND_INS, samples)
    return (sample + np.arange(count)) % count


def windows(
    seed: int,
    epoch: int,
    samples: NDArray[np.int64],
    widths: NDArray[np.int64],
    heights: NDArray[np.int64],
    window: WindowConfig,
) -> NDArray[np.int64]:
    """Random windows as torchvision's RandomResizedCrop draws them.

    samples, widths, heights: shape (n,); sizes in pixels. Returns (n, 4): top, left, height, width.
    """
    draws = uniform(seed, epoch, samples, MIRROR).reshape(-1, TRIES, NUMBERS_A_TRY)
    area = (widths * heights)[:, None] * _between(window.area, draws[..., 0])
    ratio = np.exp(_between([np.log(window.ratio[0]), np.log(window.ratio[1])], draws[..., 1]))
    width = np.rint(np.sqrt(area * ratio)).astype(np.int64)
    height = np.rint(np.sqrt(area / ratio)).astype(np.int64)
    fits = (width > 0) & (width <= widths[:, None]) & (height > 0) & (height <= heights[:, None])
    top = (draws[..., 2] * (heights[:, None] - height + 1)).astype(np.int64)
    left = (draws[..., 3] * (widths[:, None] - width + 1)).astype(np.int64)
    candidates = np.stack([top, left, height, width], axis=-1)
    drawn = candidates[np.arange(len(samples)), fits.argmax(axis=1)]
    any_fits = np.any(fits, axis=1, keepdims=True)
    return np.where(any_fits, drawn, _central(widths, heights, window.ratio))


def mirrors(seed: int, epoch: int, samples: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which samples are mirrored in this epoch: half of them, shape (n,)."""
    return uniform(seed, epoch, samples, 1, first=MIRROR)[:, 0] < 0.5


def central_windows(widths: NDArray[np.int64], heights: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Validation's windows: the central square of `share` of the shorter side; (n, 4): top, left, height, width."""
    side = np.rint(np.minimum(widths, heights) * share).astype(np.int64)
    return np.stack([(heights - side) // 2, (widths - side) // 2, side, side], axis=-1)


def uniform(seed: int, epoch: int, samples: NDArray[np.int64], count: int, *, first: int = 0) -> NDArray[np.float64]:
    """`count` numbers in [0, 1) for each sample, shape (n, count).

    SplitMix64 (Steele, Lea and Flood 2014) over the words (seed, epoch, sample, number): numpy's generators would need
    one construction a sample.
    """
    state = _mix(_mix(np.uint64(seed)) ^ np.uint64(epoch))
    states = _mix(state ^ samples.astype(np.uint64))[:, None]
    words = _mix(states ^ np.arange(first, first + count, dtype=np.uint64))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(word: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """SplitMix64's step and finaliser."""
    with np.errstate(over="ignore"):  # arithmetic modulo 2**64
        word = np.asarray(word, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return word ^ (word >> np.uint64(31))


def _between(limits: list[float], draws: NDArray[np.float64]) -> NDArray[np.float64]:
    return limits[0] + (limits[1] - limits[0]) * draws


def _central(widths: NDArray[np.int64], heights: NDArray[np.int64], ratio: list[float]) -> NDArray[np.int64]:
    """The window RandomResizedCrop falls back to: central, as large as the ratio allows; (n, 4)."""
    stored = widths / heights
    width = np.where(stored > ratio[1], np.rint(heights * ratio[1]), widths).astype(np.int64)
    height = np.where(stored < ratio[0], np.rint(widths / ratio[0]), heights).astype(np.int64)
    return np.stack([(heights - height) // 2, (widths - width) // 2, height, width], axis=-1)
