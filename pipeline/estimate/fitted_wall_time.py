"""The wall time to ask for, where nobody gave one: the estimate's upper end with a margin. Torch-free."""

from math import ceil

from pipeline.config import Config
from pipeline.config.wall_time import AUTO, DEFAULT_S, clock
from pipeline.errors import UserError
from pipeline.estimate.run import Model, RunTime

MARGIN = 3
"""The one whole run that can be compared took 2.5 times the upper end of its updates (docs/estimate.md), and a job
that is cut off and started again costs more than one that ends early."""
ROUNDED_S = 600


def set_wall_time(config: Config) -> None:
    """Give a configuration whose wall time is `auto` one: what fits, or the default where nothing is estimated."""
    if config.site.wall_time != AUTO:
        return
    try:
        fitted_s = fitted(config, Model(config).run())
    except UserError:
        fitted_s = DEFAULT_S
    config.site.wall_time = clock(fitted_s)


def fitted(config: Config, run: RunTime) -> int:
    """Seconds: the upper end times the margin, and the time to save in, up to whole ten minutes; at most the site's
    limit, where a run goes on in a new start."""
    wanted_s = MARGIN * run.total_s.high + config.site.requeue.lead_s
    rounded_s = ROUNDED_S * ceil(wanted_s / ROUNDED_S)
    hours = config.site.limits.hours
    if hours is not None and config.site.reservation is None:
        rounded_s = min(rounded_s, int(hours * 3600))
    return max(rounded_s, config.site.requeue.lead_s + 1)


def starts(config: Config, run: RunTime, wall_time_s: int) -> int:
    """How often a run has to be started at least, if each job has this wall time and saves before its end."""
    lead_s = min(config.site.requeue.lead_s, wall_time_s - 1)
    return max(1, ceil(run.total_s.low / (wall_time_s - lead_s)))


def in_starts(config: Config, run: RunTime, wall_time_s: int) -> str:
    """`, at least 3 starts (site.requeue.max allows 4)`; nothing where one job may be enough."""
    count = starts(config, run, wall_time_s)
    return f", at least {count:,} starts (site.requeue.max allows {config.site.requeue.max + 1})" if count > 1 else ""
