"""All that `make estimate` tells of a run: its time, what papers report, other grids, other all-reduces, other sizes.

In: a checked configuration. Out: a `Prediction`; nothing is printed here. Torch-free; numpy.
"""

from dataclasses import dataclass, replace

from pipeline.config import Config, Grid
from pipeline.config.checks import ALL_REDUCES
from pipeline.estimate.algorithms import split_rows
from pipeline.estimate.run import Bracket, Model, RunTime, efficiency
from pipeline.estimate.step import Step
from pipeline.published import Efficiency, Published, Time, read

LEFT_OUT = (
    "left out: how much slower a GPU is on fewer images than were measured, decoding and input, waiting for the "
    "slowest worker, other traffic, a collective's own software beyond latency, packet headers, checkpoints, queueing"
)
"""Said each time."""

CANDIDATES = (
    "a GPU's speed on batches smaller than the measured one",
    "input: decoding, and reading from a shared file system",
    "waiting for the slowest of all workers in each update",
    "what a collective's software takes beyond the link's latency, and other traffic between racks",
    "the table of experiments is rebuilt: grid, stages and GPUs may have been others",
    "the paper's time may hold start, validation or more",
)
"""What may stand behind a misfit; the model decides between none of them."""

MOST_GRIDS = 10


@dataclass(frozen=True)
class GridStep:
    """The run's last stage on a grid."""

    grid: Grid
    step: Step
    splits_a_node: bool


@dataclass(frozen=True)
class OtherAllReduce:
    """The run with an all-reduce."""

    name: str
    step: Step
    """Of the last stage."""
    training_s: Bracket


@dataclass(frozen=True)
class Point:
    """Efficiency at a number of workers, at the last stage's batch, on the best grid by the model."""

    workers: int
    nodes: int
    grid: Grid
    efficiency: Bracket


@dataclass(frozen=True)
class Prediction:
    """What a run would take."""

    config: Config
    model: Model
    run: RunTime
    grids: tuple[GridStep, ...]
    """All legal ones, the best first."""
    all_reduces: tuple[OtherAllReduce, ...]
    curve: tuple[Point, ...]
    published_efficiency: Efficiency | None
    published_time: Time | None
    published: Published
    measured_s: float | None = None
    """What the loop of a run of this size took; None: no run was named."""

    @property
    def loop_s(self) -> Bracket:
        """What lies between a run's first and last update: updates, exchange and validation."""
        return self.run.training_s + self.run.exchange_s + Bracket(self.run.validation_s, self.run.validation_s)

    @property
    def measured_misfit_s(self) -> float | None:
        """Seconds that the measured loop lies above or below its bracket; 0: inside."""
        return None if self.measured_s is None else self.loop_s.misfit(self.measured_s)

    @property
    def efficiency_misfit(self) -> float | None:
        """Percentage points that the published figure lies above (more than 0) or below the bracket; 0: inside."""
        one = self.published_efficiency
        return None if one is None else self.run.efficiency.misfit(one.percent)

    @property
    def time_misfit_s(self) -> float | None:
        """Seconds that the published time lies above or below the bracket of all updates; 0: inside."""
        one = self.published_time
        return None if one is None else self.run.training_s.misfit(one.time_s)

    @property
    def place_of_grid(self) -> int:
        """Of the run's own grid among all, from 1."""
        return next(place for place, one in enumerate(self.grids, start=1) if one.grid == self.model.plan.grid)


def predict(config: Config) -> Prediction:
    """Estimate a run. Raises UserError where the site's profile has no speed of its network and precision."""
    model = Model(config)
    run = model.run()
    published = read()
    plan, last = model.plan, run.stages[-1].stage
    return Prediction(
        config=config,
        model=model,
        run=run,
        grids=tuple(grids(model, plan.workers, last.per_worker_batch, last.micro_batches)),
        all_reduces=tuple(all_reduces(model, run)),
        curve=tuple(curve(model, run, published)),
        published_efficiency=published.efficiency_of(config.site.name, plan.workers, last.per_worker_batch),
        published_time=published.time_of(config.site.name, plan.workers, config.experiment),
        published=published,
    )


def grids(model: Model, workers: int, batch: int, micro_batches: int) -> list[GridStep]:
    """All grids of `workers` workers for the model's all-reduce, the best first; of equals the nearest to a square."""
    wiring = model.wiring(workers)
    found: list[GridStep] = []
    for vertical in (side for side in range(1, workers + 1) if workers % side == 0):
        grid = Grid(vertical, workers // vertical)
        if found and model.all_reduce.name != "torus":  # only the torus looks at the grid
            update = found[0].step
        else:
            update = model.update(batch, micro_batches, model.averaged(grid, wiring))
        is_split = bool(split_rows((grid.vertical, grid.horizontal), wiring.node_of_rank))
        found.append(GridStep(grid, update, is_split))
    return sorted(found, key=lambda one: (one.step.averaging_s, max(one.grid.vertical, one.grid.horizontal)))


def all_reduces(model: Model, run: RunTime) -> list[OtherAllReduce]:
    """The run with every all-reduce there is, on its own grid; the quickest first."""
    wiring, grid = model.wiring(model.plan.workers), model.plan.grid
    found = []
    for name in ALL_REDUCES:
        averaged = model.averaged(grid, wiring, replace(model.all_reduce, name=name))
        steps = [model.update(one.stage.per_worker_batch, one.stage.micro_batches, averaged) for one in run.stages]
        training_s = Bracket(
            sum(one.updates * step.full_overlap_s for one, step in zip(run.stages, steps, strict=True)),
            sum(one.updates * step.no_overlap_s for one, step in zip(run.stages, steps, strict=True)),
        )
        found.append(OtherAllReduce(name, steps[-1], training_s))
    return sorted(found, key=lambda one: one.training_s.high)


def curve(model: Model, run: RunTime, published: Published) -> list[Point]:
    """Efficiency from one node up to the run's own size, or to the largest that a paper reports of the site."""
    batch = run.stages[-1].stage.per_worker_batch
    reported = {one.from_workers for one in published.efficiency if one.site == model.config.site.name}
    most = max([model.plan.workers, *reported])
    counts = {model.plan.workers, *reported, model.on_node}
    count = model.on_node
    while count <= most:
        counts.add(count)
        count *= 2
    alone = model.on_one_node(batch, 1)
    found = []
    for workers in sorted(counts):
        best = grids(model, workers, batch, 1)[0]
        found.append(Point(workers, -(-workers // model.on_node), best.grid, efficiency(alone, best.step)))
    return found
