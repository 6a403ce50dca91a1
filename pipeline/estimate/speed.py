"""How long a worker computes on a micro-batch, from the speeds that its site's profile has. Torch-free.

Between two measured batches the time of a micro-batch is taken as a straight line, beyond them images a second as
those of the nearest: a GPU is slower on fewer images than were measured, and nothing here makes up by how much.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.config.schema import Config
from pipeline.config.site import SpeedConfig
from pipeline.errors import UserError


@dataclass(frozen=True)
class Speed:
    """Measured speeds of one network in one precision, rising by batch."""

    batches: tuple[int, ...]
    images_per_s: tuple[float, ...]

    def seconds(self, batch: int) -> float:
        """Forward, backward and update of a micro-batch of `batch` images."""
        least, most = self.batches[0], self.batches[-1]
        if batch <= least:
            return batch / self.images_per_s[0]
        if batch >= most:
            return batch / self.images_per_s[-1]
        times = [size / speed for size, speed in zip(self.batches, self.images_per_s, strict=True)]
        return float(np.interp(batch, self.batches, times))

    def is_measured(self, batch: int) -> bool:
        """Whether `batch` is neither smaller nor larger than what was measured."""
        return self.batches[0] <= batch <= self.batches[-1]

    def words(self) -> str:
        """`769 images/s at 128 images`."""
        pairs = zip(self.batches, self.images_per_s, strict=True)
        return ", ".join(f"{speed:,.4g} images/s at {batch} images" for batch, speed in pairs)


def speed_of(config: Config) -> Speed:
    """The speeds of the run's network in its precision. Raises UserError where the site's profile has none."""
    known = config.site.hardware.speeds
    network = config.model.name, config.data.image_size
    fitting = {one.batch: one.images_per_s for one in known if _is_of(one, network, config.precision.compute)}
    if not fitting:
        asked = f"{config.model.name} on {network[1]} pixels in {config.precision.compute}"
        there = "; ".join(sorted({f"{one.model} on {one.image_size} pixels in {one.precision}" for one in known}))
        raise UserError(
            f"site {config.site.name} has no images/s of {asked} (site.hardware.speeds), so nothing can be estimated; "
            f"it has {there or 'none'}; SITE= names another (abci has some), `make calibrate` measures this machine"
        )
    batches = sorted(fitting)
    return Speed(tuple(batches), tuple(fitting[batch] for batch in batches))


def _is_of(speed: SpeedConfig, network: tuple[str, int], precision: str) -> bool:
    return (speed.model, speed.image_size) == network and speed.precision == precision
