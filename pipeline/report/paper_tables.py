"""The paper's tables 1 to 6 from published figures, recipes, runs and estimates. Pure; torch-free.

Mikami et al. 2018: 1 time and accuracy, 2 scaling by system, 3 batches, 4 grids, 5 accuracy and time by experiment, 6
scaling by GPUs.
"""

from collections.abc import Iterator

from pipeline.config import Stage
from pipeline.config.plan import to_scale
from pipeline.published import Efficiency, PublishedRun, ScalingSystem
from pipeline.report.figures import between, count, percent, seconds
from pipeline.report.groups import Group
from pipeline.report.marks import REBUILT
from pipeline.report.material import Material, Scaling, Size
from pipeline.report.recipes import Recipe
from pipeline.report.table import Cell, Column, Table, columns, made, row, texts

OF_GROUP = "A figure of several runs is their mean; runs of most workers stand for an experiment."
LOOP = "Measured is the time of all updates with the validations between them, without the start."


def paper_tables(material: Material) -> list[Table]:
    return [
        time_and_accuracy(material),
        systems(material),
        batches(material),
        grids(material),
        by_experiment(material),
        by_gpus(material),
    ]


def time_and_accuracy(material: Material) -> Table:
    """Table 1."""
    of = [
        Column("system", is_number=False),
        *texts("published", "batch", "processors", "library"),
        *columns("published", "time", "top-1"),
        *columns("measured", "workers", "runs", "time", "top-1"),
        *columns("estimated", "all updates"),
        *columns("scale model", "runs", "time", "top-1"),
    ]
    rows = []
    for run in sorted(material.published.runs, key=lambda one: one.experiment == "exp2"):  # this work comes last
        if run.table1:
            published = {"table1": run.table1, "batch": run.batch, "processors": run.processors,
                         "library": run.library, "time": run.time, "top1": percent(run.top1)}  # fmt: skip
            marks = material.published
            rows.append(row(*(marked(text, marks.mark(run.experiment, name)) for name, text in published.items()),
                            *_results(material, run.experiment)))  # fmt: skip
    note = f"This work takes runs of exp2 only{_of_headline(material)}. {OF_GROUP} {LOOP}"
    note += _not_to_scale(material)
    return made("table-1", "Table 1: training time and top-1 accuracy", note, of, rows)


def by_experiment(material: Material) -> Table:
    """Table 5."""
    of = [
        Column("experiment", is_number=False),
        *columns("recipe", "GPUs"),
        *columns("published", "top-1", "time"),
        *columns("measured", "workers", "runs", "time", "top-1"),
        *columns("estimated", "all updates"),
        *columns("scale model", "runs", "time", "top-1"),
    ]
    rows = []
    for recipe in material.recipes:
        run = _published(material, recipe)
        top1 = _said(material, run, "top1", percent(run.top1)) if run.top1 else _said(material, run, "words", run.words)
        rows.append(row(recipe.title, gpus(recipe), top1, _said(material, run, "time", run.time),
                        *_results(material, recipe.experiment)))  # fmt: skip
    note = (
        "Of the paper's experiments only the headline run's pair is known to us"
        f"{_of_headline(material)}, and words on the accuracy of two. "
        f"Below them stand the other recipes of conf/exp/. {OF_GROUP} {LOOP}{_not_to_scale(material)}"
    )
    return made("table-5", "Table 5: accuracy and time by experiment", note, of, rows)


def _not_to_scale(material: Material) -> str:
    """A sentence on scale models whose batch is larger than the paper's share; empty where there are none."""
    found = [
        recipe.title
        for recipe in material.recipes
        if (group := material.scale_models.get(recipe.experiment)) and not to_scale(group.records[0].config)
    ]
    return f" Scale models that are not to scale: {', '.join(found)}." if found else ""


def _results(material: Material, experiment: str) -> list[str]:
    """Cells of what was measured (workers, runs, time, top-1), estimated, and seen in scale models (3)."""
    measured, scaled = material.measured.get(experiment), material.scale_models.get(experiment)
    estimated = material.estimates.get(experiment)
    return [
        count(measured.plan.workers) if measured else "",
        *_runs(measured),
        between(estimated.training_s, "s") if estimated else "",
        *_runs(scaled),
    ]


def _runs(group: Group | None) -> list[str]:
    return [count(len(group.records)), seconds(group.time_s), percent(group.top1)] if group else [""] * 3


def batches(material: Material) -> Table:
    """Table 3."""
    of = [
        Column("experiment", is_number=False),
        *texts("published", "batch"),
        *texts("recipe", "epochs"),
        *columns("recipe", "a worker", "total batch", "updates an epoch", "momentum"),
        *columns("measured", "total batch", "updates"),
        *columns("scale model", "total batch", "updates"),
    ]
    rows = [one for recipe in material.recipes for one in _stages(material, recipe)]
    note = (
        f"A row a stage. Momentum keeps the noise scale of Smith et al. where a recipe says so{_of_headline(material)}."
    )
    note += _not_to_scale(material)
    return made("table-3", "Table 3: batches", note, of, rows)


def _stages(material: Material, recipe: Recipe) -> Iterator[tuple[Cell, ...]]:
    run = _published(material, recipe)
    for number, stage in enumerate(recipe.plan.stages):
        of_run = [
            cell
            for of in (material.measured, material.scale_models)
            for cell in _lived(of.get(recipe.experiment), number)
        ]
        batch = _said(material, run, "batch", run.batch) if number == 0 else Cell()
        yield row(recipe.title, batch, *_stage(recipe, number, stage), *of_run)


def _stage(recipe: Recipe, number: int, stage: Stage) -> list[Cell]:
    """Epochs, batch a worker, total batch, updates an epoch and momentum of a stage, with their marks."""
    key = f"recipe.stages.{number}"
    start, batch, workers = f"{key}.start_epoch", f"{key}.per_worker_batch", "recipe.workers"
    end = "recipe.epochs" if stage.end_epoch == recipe.plan.epochs else f"recipe.stages.{number + 1}.start_epoch"
    # Epoch 0 is where any run starts.
    epochs = recipe.mark(end) if number == 0 else recipe.mark(start, end)
    moment = ("optim.momentum", *(("optim.momentum_reference_batch", batch, workers) if _moves(recipe) else ()))
    return [
        marked(f"{stage.start_epoch} to {stage.end_epoch}", epochs),
        marked(count(stage.per_worker_batch), recipe.mark(batch)),
        marked(count(stage.recipe_batch), recipe.mark(batch, workers)),
        marked(count(stage.updates_per_epoch), recipe.mark(batch, workers, "recipe.images")),
        marked(f"{stage.momentum:.3f}", recipe.mark(*moment)),
    ]


def _moves(recipe: Recipe) -> bool:
    """Whether momentum depends on the batch."""
    return recipe.config.optim.momentum_reference_batch is not None


def _lived(group: Group | None, stage: int) -> list[str]:
    """Total batch and updates of a stage, as runs had them."""
    if group is None:
        return ["", ""]
    return [count(group.plan.stages[stage].total_batch), count(group.plan.stages[stage].updates)]


def grids(material: Material) -> Table:
    """Table 4."""
    of = [
        Column("experiment", is_number=False),
        *columns("published", "GPUs"),
        *columns("recipe", "GPUs", "vertical", "horizontal"),
        *columns("measured", "workers", "grid"),
        *columns("estimated", "best grid", "place of the recipe's"),
        *columns("scale model", "workers", "grid"),
    ]
    rows = []
    for recipe in material.recipes:
        run = _published(material, recipe)
        grid, estimated = recipe.config.recipe.grid, material.estimates.get(recipe.experiment)
        rows.append(row(
            recipe.title,
            _said(material, run, "workers", count(run.workers)),
            gpus(recipe),
            marked(count(grid.vertical), recipe.mark("recipe.grid.vertical")),
            marked(count(grid.horizontal), recipe.mark("recipe.grid.horizontal")),
            *_grid(material.measured.get(recipe.experiment)),
            *([estimated.grid, f"{estimated.place} of {estimated.grids}"] if estimated else ["", ""]),
            *_grid(material.scale_models.get(recipe.experiment)),
        ))  # fmt: skip
    note = (
        "Vertical is the number of rows, horizontal that of workers in a row. The best grid is the model's"
        f"{_of_headline(material)}."
    )
    return made("table-4", "Table 4: grids", note, of, rows)


def _grid(group: Group | None) -> list[str]:
    return [count(group.plan.workers), str(group.plan.grid)] if group else ["", ""]


def systems(material: Material) -> Table:
    """Table 2."""
    of = [
        Column("system", is_number=False),
        *texts("published", "processors", "interconnect"),
        *columns("published", "efficiency"),
        *columns("measured", "efficiency"),
        *columns("estimated", "efficiency"),
    ]
    rows = []
    for system in material.published.systems:
        size = Size(system.site, system.batch or 0, system.workers or 0)
        measured = material.measured_scaling.get(size)
        rows.append(row(
            system.system, system.processors, system.interconnect, _efficiency(material, system),
            percent(measured.efficiency) if measured else "",
            between(material.estimated_scaling.get(size), "%"),
        ))  # fmt: skip
    note = (
        "Efficiency is images a second for each worker, relative to one node's. Measured is a run of make scaling at "
        "that site and size; a scale model has no such size (table 6 has its own)."
    )
    return made("table-2", "Table 2: scaling efficiency and interconnect", note, of, rows)


def _efficiency(material: Material, system: ScalingSystem) -> str:
    if system.percent is not None:
        return system.words or f"{system.percent:g} %"
    found = material.published.efficiency_of(system.site, system.workers or 0, system.batch or 0)
    return (found.words or f"{found.percent:g} %") if found else ""


def by_gpus(material: Material) -> Table:
    """Table 6."""
    of = [
        Column("site", is_number=False),
        *columns("recipe", "images a worker", "workers"),
        *columns("published", "efficiency"),
        *columns("measured", *OF_SCALING),
        *columns("estimated", "efficiency"),
        *columns("scale model", *OF_SCALING),
    ]
    exact = {Size(one.site, one.batch, one.from_workers): one for one in material.published.efficiency}
    above = {size: one for size, one in exact.items() if one.and_above}
    filled = {*material.measured_scaling, *material.estimated_scaling, *material.modelled_scaling}
    rows = []
    for size in sorted({*filled, *exact}):
        if size in filled or size not in above:
            rows.append(_of_size(material, size, None if size in above else exact.get(size)))
        if size in above:
            rows.append(row(size.site, count(size.batch), f"above {size.workers:,}", _printed(above[size]), *[""] * 9))
    note = (
        "Relative to one node at the site; in what was measured, and in scale models, to the smallest number of "
        "workers with a result. Synthetic images are noise made once: what is left without reading and decoding."
    )
    return made("table-6", "Table 6: scaling efficiency by GPUs", note, of, rows)


OF_SCALING = ("images/s", "efficiency", "synthetic images/s", "synthetic efficiency")


def _of_size(material: Material, size: Size, published: Efficiency | None) -> tuple[Cell, ...]:
    return row(
        size.site, count(size.batch), count(size.workers), _printed(published) if published else "",
        *_scaling(material.measured_scaling.get(size)),
        between(material.estimated_scaling.get(size), "%"),
        *_scaling(material.modelled_scaling.get(size)),
    )  # fmt: skip


def _printed(one: Efficiency) -> str:
    return one.words or f"{one.percent:g} %"


def _scaling(one: Scaling | None) -> list[str]:
    if one is None:
        return [""] * len(OF_SCALING)
    return [
        count(one.images_per_s), percent(one.efficiency),
        count(one.synthetic_images_per_s), percent(one.synthetic_efficiency),
    ]  # fmt: skip


def _published(material: Material, recipe: Recipe) -> PublishedRun:
    """What is published of an experiment; nothing where conf/published/ does not speak of it."""
    return material.published.run(recipe.experiment) or PublishedRun(recipe.experiment, recipe.title)


def _said(material: Material, run: PublishedRun, name: str, text: str) -> Cell:
    """A published cell in an experiment's row: rebuilt where the figure is, or that it is of this experiment."""
    marks = {material.published.mark(run.experiment, key) for key in (name, "table1")}
    return Cell(text, bool(text) and REBUILT in marks)


def _of_headline(material: Material) -> str:
    """A clause on the experiment that the paper's headline figures stand at, while that is rebuilt."""
    return (
        "; that its headline figures are of Exp. 2 is rebuilt"
        if material.published.mark("exp2", "table1") == REBUILT
        else ""
    )


def gpus(recipe: Recipe) -> Cell:
    """A recipe's GPUs, with their mark."""
    return marked(count(recipe.config.recipe.workers), recipe.mark("recipe.workers"))


def marked(text: str, mark: str) -> Cell:
    """A cell of a recipe, with its mark."""
    return Cell(text, mark == REBUILT)
