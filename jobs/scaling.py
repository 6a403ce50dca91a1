"""Scaling efficiency: `python -m jobs.scaling site=slurm nodes=1,2,4 [OVERRIDE …]`, or `--report [RUN…]`. Torch-free.

For each number of nodes (or of workers=, on this machine) one run on real images and one on synthetic ones, with 32
images a worker: what tables 2 and 6 of Mikami et al. are made of. At a cluster they are submitted, and --report tells
of them when they have ended; here they run one after another, and their table comes at the end.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from jobs import batch, compose, local, prepare
from jobs.allocation import allocate
from jobs.command_line import Parser, fail, run
from jobs.run_folders import chosen
from pipeline.config import Config, load, make_plan
from pipeline.errors import UserError
from pipeline.estimate.algorithms import legal_grids
from pipeline.estimate.placement import as_network, node_by_node
from pipeline.report.records import SCALING as EXPERIMENT
from pipeline.run_folder import EXIT_DONE, EXIT_SAVED, RunFolder

OWN = ("exp", "nodes", "workers", "recipe.workers", "recipe.grid", "grid", "data.synthetic", "run.dir", "run.resume")
"""Keys, and groups of them, that the runs differ in: nobody else sets them."""


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make scaling", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="overrides; run folders with --report")
    parser.add_argument("--report", action="store_true", help="the table of runs that there are already")
    options = parser.parse_args(arguments)
    if options.report:
        return report(options.words)
    runs = plan_runs(options.words)
    if runs[0].config.site.scheduler == "local":
        return run_here(runs)
    for one in runs:
        batch.check_submittable(one.config)
    jobs = [batch.make(one.config, one.words, compose.REPOSITORY) for one in runs]
    batch.submit(jobs, jobs[0].folder.path.parent)
    print("their table, when they have ended: make scaling REPORT=1")
    return EXIT_DONE


@dataclass(frozen=True)
class Run:
    """One run that is to be made: the words, and what they compose to."""

    words: list[str]
    config: Config


def plan_runs(words: Sequence[str]) -> list[Run]:
    """The runs that `nodes=1,2,4` or `workers=1,2,4` among `words` ask for: each on real images and on synthetic ones.

    Raises UserError for a number that the site cannot run.
    """
    counts = {key: text for key, _, text in (word.partition("=") for word in words) if key in ("nodes", "workers")}
    others = [word for word in words if word.partition("=")[0] not in counts]
    for word in others:
        key = word.lstrip("+~").partition("=")[0]
        if any(key == own or key.startswith(f"{own}.") for own in OWN):
            raise UserError(
                f"{word}: make scaling sets that itself; it takes SITE=, NODES= or WORKERS=, and other keys"
            )
    if len(counts) != 1:
        raise UserError("give how many: NODES=1,2,4 at a cluster's site, or WORKERS=1,2,4 on this machine")
    ((key, text),) = counts.items()
    base = [f"exp={EXPERIMENT}", *others]
    site = compose.compose(base)
    found = []
    for count in _numbers(key, text):
        sized = [*base, f"{key}={count}", *_recipe(site, key, count)]
        for synthetic in ("false", "true"):
            one = [*sized, f"data.synthetic={synthetic}"]
            found.append(Run(one, compose.compose(one)))
    return found


def _numbers(key: str, text: str) -> list[int]:
    parts = text.strip("[]").split(",")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise UserError(f"{key}={text}: whole numbers above 0, with commas between them, as 1,2,4")
    return sorted({int(part) for part in parts})


def _recipe(config: Config, key: str, count: int) -> list[str]:
    """Words that make the recipe's workers the real ones, on the best grid by the model of the network.

    In a scale model each of them stands for `scale` GPUs.
    """
    on_node = config.site.workers_per_node
    if key == "nodes" and on_node is None:
        raise UserError(f"nodes={count}: site {config.site.name} is one machine; give WORKERS= instead")
    workers = count * (on_node or 1) if key == "nodes" else count
    size_bytes = config.allreduce.bucket_mb * 2**20
    grid = legal_grids(workers, node_by_node(workers, on_node), as_network(config.site.network), size_bytes)[0]
    scale = config.scale or 1
    return [
        f"recipe.workers={workers * scale}",
        f"recipe.grid.vertical={grid.vertical * scale}",
        f"recipe.grid.horizontal={grid.horizontal}",
        f"grid.vertical={grid.vertical}",
        f"grid.horizontal={grid.horizontal}",
    ]


def run_here(runs: Sequence[Run]) -> int:
    """Run them one after another, and show their table; what failed is told of, and the others run all the same."""
    done = []
    code = EXIT_DONE
    for one in runs:
        folder = prepare.create(one.config, one.words)
        try:
            ended = local.run(folder)
        except UserError as error:
            code = fail(str(error))
            continue
        print(f"run folder: {folder}", flush=True)
        if ended == EXIT_SAVED:  # whoever stops one does not want those after it
            return EXIT_SAVED
        done.append((folder, one.config))
    if done:
        show(measured(done))
    return code


def report(names: Sequence[str]) -> int:
    """The table of the run folders that `names` are or hold, else of all runs of `make scaling` in runs/."""
    folders = [folder for folder in chosen(names, Path("runs")) if names or is_of_scaling(folder)]
    if not folders:
        raise UserError("there are no runs of scaling in runs/ yet; make scaling SITE=… NODES=1,2,4 makes some")
    show(measured([(folder, load(folder.config)) for folder in folders]))
    return EXIT_DONE


@dataclass(frozen=True, order=True)
class Size:
    """What rows of the table differ in."""

    site: str
    is_scale_model: bool
    nodes: int
    workers: int

    @property
    def where(self) -> str:
        """What a table is of."""
        return f"{self.site}, scale models" if self.is_scale_model else self.site


Speeds = dict[Size, dict[bool, float | None]]
"""Images a second by size, of real images (False) and of synthetic ones (True); None: there is no result yet."""


def is_of_scaling(folder: RunFolder) -> bool:
    """Whether a run folder holds a run of `make scaling`; one that cannot be read is told of by make status."""
    try:
        return load(folder.config).experiment == EXPERIMENT
    except UserError:
        return False


def measured(runs: Iterable[tuple[RunFolder, Config]]) -> Speeds:
    """Images a second of runs; of several of a size the last that has a result."""
    found: Speeds = {}
    for folder, config in runs:
        asked = allocate(config, make_plan(config))
        size = Size(config.site.name, config.scale is not None, asked.nodes, asked.workers)
        speeds = found.setdefault(size, {})
        result = folder.read_result()
        if result is not None:
            speeds[config.data.synthetic] = float(result["images_per_s"])
        else:
            speeds.setdefault(config.data.synthetic, None)
    return found


def efficiencies(speeds: Mapping[int, float | None]) -> dict[int, float | None]:
    """Images a second a worker, relative to the smallest number of workers that has a result; in percent."""
    known = {workers: speed for workers, speed in sorted(speeds.items()) if speed}
    if not known:
        return dict.fromkeys(speeds)
    fewest, slowest = next(iter(known.items()))
    return {
        workers: 100 * known[workers] / workers * fewest / slowest if workers in known else None for workers in speeds
    }


@dataclass(frozen=True)
class Row:
    """Speeds and efficiencies of a size, of real images and of synthetic ones; None where there is no result yet."""

    size: Size
    images_per_s: float | None
    efficiency: float | None
    synthetic_images_per_s: float | None
    synthetic_efficiency: float | None


def rows_of(found: Speeds) -> list[Row]:
    """Rising by size; efficiencies within each table."""
    rows = []
    for where in sorted({size.where for size in found}):
        sizes = sorted(size for size in found if size.where == where)
        real, synthetic = ({size.workers: found[size].get(kind) for size in sizes} for kind in (False, True))
        share, synthetic_share = efficiencies(real), efficiencies(synthetic)
        for size in sizes:
            of = size.workers
            rows.append(Row(size, real[of], share[of], synthetic[of], synthetic_share[of]))
    return rows


def show(found: Speeds) -> None:
    """A table a site: real images first."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    for where, rows in groupby(rows_of(found), key=lambda row: row.size.where):
        table = Table(title=f"scaling at {where}", title_justify="left")
        for name in ("nodes", "workers", "images/s", "efficiency", "synthetic images/s", "efficiency"):
            table.add_column(name, justify="right")
        for row in rows:
            cells = [f"{row.size.nodes:,}", f"{row.size.workers:,}"]
            for speed, share in (
                (row.images_per_s, row.efficiency),
                (row.synthetic_images_per_s, row.synthetic_efficiency),
            ):
                cells += ["none yet" if speed is None else f"{speed:,.0f}", "" if share is None else f"{share:.2f} %"]
            table.add_row(*cells)
        console.print(table)


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
