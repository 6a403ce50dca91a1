"""What a run asks a scheduler for: nodes, workers on each, wall time; and whether the site grants it.

Pure functions; torch-free.
"""

from dataclasses import dataclass

from pipeline.config import Config, Plan
from pipeline.config.scale import possible_workers
from pipeline.config.wall_time import seconds
from pipeline.errors import UserError
from pipeline.wording import counted


@dataclass(frozen=True)
class Allocation:
    """The machines of one job."""

    nodes: int
    workers_per_node: int
    """Ranks on each node: all its GPUs, or fewer where the run needs less than one node."""
    cores_per_node: int | None
    """Cores to ask for on each node; None: they come with it."""
    gpus_per_node: int | None
    """GPUs to ask for by name on each node; None or 0: no word of them."""
    wall_time_s: int

    @property
    def workers(self) -> int:
        return self.nodes * self.workers_per_node


def allocate(config: Config, plan: Plan) -> Allocation:
    """The nodes that `plan` needs at the site. Raises UserError where its workers do not fill them evenly."""
    site = config.site
    most = site.workers_per_node or plan.workers
    on_node = min(most, plan.workers)
    if plan.workers % on_node:
        whole = [one for one in _possible(config, plan) if one % most == 0 or one < most]
        near = sorted(whole, key=lambda one: (abs(one - plan.workers), one))[:5]
        names = ", ".join(f"{one} ({counted(max(1, one // most), 'node')})" for one in near)
        raise UserError(
            f"{plan.workers} workers do not fill nodes of {most} evenly; the nearest that do are {names or 'none'}"
        )
    return Allocation(
        nodes=plan.workers // on_node,
        workers_per_node=on_node,
        cores_per_node=site.cores_per_node,
        gpus_per_node=None if site.gpus_per_node is None else min(site.gpus_per_node, on_node),
        wall_time_s=seconds(site.wall_time),
    )


def beyond_limits(config: Config, plan: Plan, allocation: Allocation) -> str:
    """One line where the site does not grant that much without a reservation, with what would do; else nothing."""
    site, limits = config.site, config.site.limits
    if site.reservation is not None:
        return ""
    if limits.nodes is not None and allocation.nodes > limits.nodes:
        most = limits.nodes * allocation.workers_per_node
        fitting = [one for one in _possible(config, plan) if one <= most and one % allocation.workers_per_node == 0]
        better = [str(one // allocation.workers_per_node) for one in sorted(fitting, reverse=True)[:5]]
        advice = f"take NODES={' or '.join(better)}" if better else "no smaller number of nodes would do"
        return (
            f"{config.experiment} needs {counted(allocation.nodes, 'node')} ({counted(allocation.workers, 'worker')}) "
            f"and {site.name} grants {limits.nodes}; {advice}, or give a reservation by site.reservation="
        )
    if limits.hours is not None and allocation.wall_time_s > limits.hours * 3600:
        return (
            f"site.wall_time={site.wall_time} is longer than the {limits.hours:g} hours that {site.name} grants; "
            f"take a shorter one (a run goes on by itself, site.requeue), or give a reservation by site.reservation="
        )
    return ""


def _possible(config: Config, plan: Plan) -> list[int]:
    """Numbers of real workers that can run the recipe."""
    return possible_workers(plan.virtual_workers, [stage.per_worker_batch for stage in config.recipe.stages])
