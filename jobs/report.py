"""The paper's tables and figure from run folders: `python -m jobs.report [RUN…] [report.dir=FOLDER]`. Torch-free.

Names are run folders, or folders of them; runs/ by default. Leaves report.html, one page that needs nothing else,
report.md, and the figures as SVG and PNG. What is no run, or cannot be read, is left out and told.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from jobs import compose, scaling
from jobs.command_line import Parser, run
from jobs.published import read
from jobs.render import STAND_INS
from jobs.run_folders import chosen, is_of_a_run
from jobs.status import Row, Schedulers, read_all
from pipeline.config import Config, load, make_plan
from pipeline.config.paths import check_written_out
from pipeline.errors import UserError
from pipeline.estimate.prediction import curve, grids
from pipeline.estimate.run import Bracket, Model
from pipeline.published import Published
from pipeline.report.curves import Curve, read_curve, whole_curve
from pipeline.report.groups import groups
from pipeline.report.marks import marks_of
from pipeline.report.material import Estimated, Material, Scaling, Size
from pipeline.report.place import is_report
from pipeline.report.recipes import Recipe, in_order, make_recipe
from pipeline.report.records import Record, changed, outcome_of
from pipeline.run_folder import EXIT_DONE, RunFolder
from pipeline.wording import printable

RUNS = Path("runs")
FOLDER = RUNS / "report"
OWN = "report.dir="
FULL_SIZE = ("site=abci", "site.wall_time=1:00:00")
"""Words that compose a recipe at full size, where the paper ran; nobody is to work out a wall time."""


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make report", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="RUN", help=f"run folders, or folders of them; {OWN}FOLDER")
    given = parser.parse_args(arguments).words
    output = checked(next((word.removeprefix(OWN) for word in reversed(given) if word.startswith(OWN)), str(FOLDER)))
    names = [word for word in given if not word.startswith(OWN)]
    wrong = next((name for name in names if "=" in name and not Path(name).exists()), None)
    if wrong is not None:
        raise UserError(f"{wrong}: make report takes run folders by RUNS= and {OWN}FOLDER in ARGS, nothing else")
    material = gather(folders(names, output))
    from pipeline.report.files import write  # here: matplotlib takes as long as all the rest

    for path in write(material, output):
        print(path)
    for folder, why in material.left_out:
        print(f"left out: {printable(folder)}: {printable(why)}")
    return EXIT_DONE


def checked(output: str) -> Path:
    """The folder to write into. Raises UserError for one that is none, or that lies in a run's."""
    check_written_out(OWN.rstrip("="), output)
    path = Path(output)
    for folder in (path.resolve(), *path.resolve().parents):
        if is_of_a_run(RunFolder(folder)):
            raise UserError(f"{OWN}{output} lies in the run folder {RunFolder(folder)}; name a folder outside of it")
    return path


def folders(names: Sequence[str], output: Path) -> list[RunFolder]:
    """The run folders that `names` are or hold, by default all in runs/; a folder in them without a run is one too, so
    that it is told of. `output` is none, nor is a report of ours."""
    if not names and not RUNS.is_dir():
        raise UserError(f"there is no {RUNS}/ yet; make train EXP=5 makes the first run, RUNS= names others")
    found: list[str] = []
    for name in names or [str(RUNS)]:
        if [one.path for one in chosen([name], RUNS)] == [Path(name).absolute()]:
            found.append(name)
        else:
            found += [str(path) for path in _inner(Path(name)) if not _is_of_a_report(path, output)]
    return chosen(found, RUNS) if found else []


def _is_of_a_report(folder: Path, output: Path) -> bool:
    return folder.resolve() == output.resolve() or (is_report(folder) and not is_of_a_run(RunFolder(folder)))


def _inner(folder: Path) -> Iterable[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []


def gather(runs: Sequence[RunFolder], experiments: Sequence[str] | None = None) -> Material:
    """All that the report is drawn from. experiments: of conf/exp/; None: all. Raises UserError for a conf/ that is
    broken."""
    found = gather_runs(runs, experiments)
    recipes, published = found.recipes, found.published
    return replace(
        found,
        estimates={one.experiment: of for one in recipes if (of := estimate(one, published)) is not None},
        estimated_scaling=estimate_scaling(recipes, published),
        measured_scaling=read_scaling(found.records, scale_models=False),
        modelled_scaling=read_scaling(found.records, scale_models=True),
    )


def gather_runs(runs: Sequence[RunFolder], experiments: Sequence[str] | None = None) -> Material:
    """Recipes, published figures, and what runs left; without estimates and scaling."""
    published = read()
    there = [name for name in compose.choices_of("exp") if name != scaling.EXPERIMENT]
    names = there if experiments is None else experiments
    recipes = tuple(recipe(name, published) for name in in_order(names, published))
    records, left_out = read_records(runs, {one.experiment: one.config for one in recipes})
    curves, without = read_curves(records)
    return Material(
        published=published,
        recipes=recipes,
        records=tuple(records),
        left_out=(*left_out, *without),
        curves=curves,
    )


def recipe(experiment: str, published: Published) -> Recipe:
    """An experiment of conf/exp/ at full size."""
    return make_recipe(full_size(experiment), marks_of(experiment, compose.CONF / "exp"), published)


def full_size(experiment: str) -> Config:
    return compose.compose([f"exp={experiment}", *FULL_SIZE], stand_ins=STAND_INS)


def read_records(runs: Sequence[RunFolder], recipes: dict[str, Config]) -> tuple[list[Record], list[tuple[str, str]]]:
    """The runs that can be read, and (folder, why) of those whose configuration or result cannot."""
    records, left_out = [], []
    for folder, row in zip(runs, read_all(runs, Schedulers()), strict=True):
        why = row.why
        try:
            if row.experiment:
                records.append(read_record(folder, row, recipes))
                continue
        except UserError as error:
            why = str(error)
        left_out.append((row.run, why.replace(f"{folder.path}/", "")))  # which is said already
    return records, left_out


def read_record(folder: RunFolder, row: Row, recipes: dict[str, Config]) -> Record:
    """A run. Raises UserError where its configuration or its result is damaged."""
    config, result = load(folder.config), folder.read_result()
    outcome = None if result is None else outcome_of(result, config.experiment)
    known = recipes.get(config.experiment)
    differs = None if known is None else changed(config, known)
    return Record(row.run, row.state, row.why, config, make_plan(config), outcome, differs)


def read_curves(records: Sequence[Record]) -> tuple[dict[str, Curve], list[tuple[str, str]]]:
    """The error curves of all runs that stand for an experiment, and (folder, why) of those without."""
    shown = [groups(records, scale_models=scaled).values() for scaled in (False, True)]
    found, left_out = {}, []
    for record in (record for kind in shown for group in kind for record in group.records):
        try:
            found[record.folder] = whole_curve(read_curve(RunFolder(record.folder)), record.plan.epochs)
        except (UserError, OSError) as error:
            left_out.append((record.folder, f"its curve: {error}"))
    return found, left_out


def estimate(one: Recipe, published: Published) -> Estimated | None:
    """What the model says of a recipe where its paper ran; None where conf/site/ has no such machine."""
    run_of_paper = published.run(one.experiment)
    if run_of_paper is None or run_of_paper.site != one.config.site.name:
        return None
    model = Model(one.config)
    run, last = model.run(), one.plan.stages[-1]
    found = grids(model, one.plan.workers, last.per_worker_batch, last.micro_batches)
    place = next(place for place, step in enumerate(found, start=1) if step.grid == one.plan.grid)
    return Estimated(one.config.site.name, run.training_s, str(found[0].grid), place, len(found))


def estimate_scaling(recipes: Sequence[Recipe], published: Published) -> dict[Size, Bracket]:
    """Efficiencies from one node up, and of each recipe that a paper has a figure of."""
    config = full_size(scaling.EXPERIMENT)
    site, model = config.site.name, Model(config)
    batch = model.plan.stages[-1].per_worker_batch
    found = {Size(site, batch, one.workers): one.efficiency for one in curve(model, model.run(), published)}
    for one in recipes:
        size = Size(one.config.site.name, one.plan.stages[-1].per_worker_batch, one.plan.workers)
        figure = published.efficiency_of(size.site, size.workers, size.batch)
        if figure is not None and not figure.and_above and size not in found:
            found[size] = Model(one.config).run().efficiency
    return found


def read_scaling(records: Sequence[Record], *, scale_models: bool) -> dict[Size, Scaling]:
    """What the runs of `make scaling` measured."""
    runs = [
        one for one in records if one.config.experiment == scaling.EXPERIMENT and one.is_scale_model == scale_models
    ]
    whole = [(RunFolder(one.folder), one.config) for one in runs if one.outcome is not None]
    batch = {(one.config.site.name, one.plan.workers): one.plan.stages[0].per_worker_batch for one in runs}
    return {
        Size(row.size.site, batch[row.size.site, row.size.workers], row.size.workers): Scaling(
            row.images_per_s, row.efficiency, row.synthetic_images_per_s, row.synthetic_efficiency
        )
        for row in scaling.rows_of(scaling.measured(whole))
    }


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
