"""An estimate on a console: tables of stages, grids, all-reduces and efficiency; every formula with its values; JSON.

In: a `Prediction`. Torch-free.
"""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from pipeline.config.wall_time import clock
from pipeline.estimate.fitted_wall_time import fitted, in_starts, starts
from pipeline.estimate.prediction import CANDIDATES, LEFT_OUT, MOST_GRIDS, Prediction
from pipeline.estimate.run import Bracket, RunTime
from pipeline.report.console import scale_note
from pipeline.wording import counted

BAR = 50
"""Characters of the terminal's plot."""
ZERO = 40.0
"""Percent at its left edge."""


def print_prediction(console: Console, found: Prediction) -> None:
    """Everything, in the order in which it is asked for."""
    config, plan, run = found.config, found.model.plan, found.run
    scale = "" if config.scale is None else f", {scale_note(config)}"
    console.print(
        f"{config.experiment} at {config.site.name}{scale}: {counted(plan.workers, 'worker')} on "
        f"{counted(run.nodes, 'node')}, grid {plan.grid}, {found.model.all_reduce.name}, {config.precision.compute} "
        f"({found.model.speed.words()})",
        soft_wrap=True,
    )
    if found.config.allreduce.name == "auto":
        console.print("all-reduce auto is measured when the run begins; estimated is the torus")
    console.print(
        "two figures are two ends: averaging wholly beside the backward pass, and wholly after it", soft_wrap=True
    )
    _stages(console, found)
    _totals(console, found)
    _against_papers(console, found)
    _grids(console, found)
    _all_reduces(console, found)
    _curve(console, found)
    console.print(LEFT_OUT, soft_wrap=True)


def in_a_line(run: RunTime) -> str:
    """`6.1 to 7.2 minutes on 16 nodes, 1.6 to 1.9 node-hours, scaling efficiency 93.1 to 98.2 %`."""
    return (
        f"{_span(run.total_s)} on {counted(run.nodes, 'node')}, {_figures(run.node_hours)} node-hours, "
        f"scaling efficiency {run.efficiency.low:.1f} to {run.efficiency.high:.1f} %"
    )


def as_json(found: Prediction) -> dict[str, Any]:
    """The same for programs: times in seconds, efficiency in percent."""
    plan, run = found.model.plan, found.run
    efficiency, time = found.published_efficiency, found.published_time
    return {
        "experiment": found.config.experiment,
        "site": found.config.site.name,
        "scale_model": found.config.scale is not None,
        "workers": plan.workers,
        "nodes": run.nodes,
        "grid": [plan.grid.vertical, plan.grid.horizontal],
        "all_reduce": found.model.all_reduce.name,
        "precision": found.config.precision.compute,
        "efficiency": _pair(run.efficiency),
        "published_efficiency": None if efficiency is None else efficiency.percent,
        "published_words": None if efficiency is None else efficiency.words or None,
        "misfit": found.efficiency_misfit,
        "published_time_s": None if time is None else time.time_s,
        "time_misfit_s": found.time_misfit_s,
        "loop_s": _pair(found.loop_s),
        "measured_s": found.measured_s,
        "measured_misfit_s": found.measured_misfit_s,
        "candidates": list(CANDIDATES),
        "stages": [
            {
                "start_epoch": one.stage.start_epoch,
                "per_worker_batch": one.stage.per_worker_batch,
                "micro_batches": one.stage.micro_batches,
                "total_batch": one.stage.total_batch,
                "updates": one.updates,
                "compute_s": one.step.compute_s,
                "averaging_s": one.step.averaging_s,
                "update_s": [one.step.full_overlap_s, one.step.no_overlap_s],
                "time_s": _pair(one.time_s),
                "efficiency": _pair(one.efficiency),
                "speed_is_measured": one.speed_is_measured,
            }
            for one in run.stages
        ],
        "start_s": run.start_s,
        "staging_s": run.staging_s,
        "training_s": _pair(run.training_s),
        "exchange_s": _pair(run.exchange_s),
        "validation_s": run.validation_s,
        "total_s": _pair(run.total_s),
        "node_hours": _pair(run.node_hours),
        "wall_time": clock(fitted(found.config, run)),
        "starts": starts(found.config, run, fitted(found.config, run)),
        "place_of_grid": found.place_of_grid,
        "grids": [
            {
                "grid": [one.grid.vertical, one.grid.horizontal],
                "averaging_s": one.step.averaging_s,
                "update_s": [one.step.full_overlap_s, one.step.no_overlap_s],
                "splits_a_node": one.splits_a_node,
            }
            for one in found.grids[:MOST_GRIDS]
        ],
        "all_reduces": [
            {"name": one.name, "averaging_s": one.step.averaging_s, "training_s": _pair(one.training_s)}
            for one in found.all_reduces
        ],
        "curve": [
            {"workers": one.workers, "nodes": one.nodes, "efficiency": _pair(one.efficiency)} for one in found.curve
        ],
        "left_out": LEFT_OUT,
    }


def _stages(console: Console, found: Prediction) -> None:
    table = _table("stages", "epochs", "images a worker", "total batch", "updates", "computing, ms", "averaging, ms")
    for name in ("update, ms", "time, s", "efficiency, %"):
        table.add_column(name, justify="right", overflow="fold")
    for one in found.run.stages:
        stage = one.stage
        micro = f" x {stage.micro_batches}" if stage.micro_batches > 1 else ""
        table.add_row(
            f"{stage.start_epoch} to {stage.end_epoch}",
            f"{stage.per_worker_batch}{micro}{'' if one.speed_is_measured else '*'}",
            f"{stage.total_batch:,}",
            f"{one.updates:,}",
            f"{1e3 * one.step.compute_s:.1f}",
            f"{1e3 * one.step.averaging_s:.2f}",
            f"{1e3 * one.step.full_overlap_s:.1f} … {1e3 * one.step.no_overlap_s:.1f}",
            _figures(one.time_s),
            f"{one.efficiency.low:.1f} … {one.efficiency.high:.1f}",
        )
    console.print(table)
    if not all(one.speed_is_measured for one in found.run.stages):
        console.print(
            f"* images/s of the nearest batch that was measured ({found.model.speed.words()})", soft_wrap=True
        )


def _totals(console: Console, found: Prediction) -> None:
    run = found.run
    hardware, data = found.config.site.hardware, found.config.data
    staged = hardware.read_gb_per_s is not None and (data.sample_kb is not None or data.synthetic)
    table = _table("whole run", "part", "seconds")
    table.add_row("start", "not known" if hardware.start_s is None else f"{run.start_s:.0f}")
    table.add_row(f"staging ({run.placement})", f"{run.staging_s:.1f}" if staged else "not known")
    table.add_row("all updates", _figures(run.training_s))
    table.add_row("exchange of samples", _figures(run.exchange_s) if run.exchange_s.high else "none")
    table.add_row("validation", f"{run.validation_s:.1f}")
    table.add_row("total", _figures(run.total_s))
    table.add_row("node-hours", _figures(run.node_hours))
    wall_time_s = fitted(found.config, run)
    table.add_row("wall time to ask for", clock(wall_time_s))
    console.print(table)
    if words := in_starts(found.config, run, wall_time_s):
        console.print(f"wall time: {clock(wall_time_s)}{words}", soft_wrap=True)


def _against_papers(console: Console, found: Prediction) -> None:
    """Published figures beside the brackets, and what a misfit may come from."""
    run, efficiency, time = found.run, found.published_efficiency, found.published_time
    if efficiency is None and time is None:
        console.print("published: nothing of this size on this machine")
    if found.measured_s is not None:
        misfit = found.measured_misfit_s or 0.0
        console.print(
            f"measured: the loop took {found.measured_s:.1f} s, estimate {_figures(found.loop_s)} s, "
            f"{f'misfit {misfit:+.1f} s' if misfit else 'inside'}"
        )
    if efficiency is None and time is None:
        return
    table = _table("against the paper", "what", "estimate", "published", "misfit", "by")
    if efficiency is not None:
        words = efficiency.words or f"{efficiency.percent:g} %"
        estimate = f"{run.efficiency.low:.2f} … {run.efficiency.high:.2f} %"
        misfit = found.efficiency_misfit or 0.0
        table.add_row(
            f"scaling efficiency at {efficiency.batch} images a worker", estimate, words,
            f"{misfit:+.1f} points" if misfit else "inside", efficiency.system,
        )  # fmt: skip
    if time is not None:
        misfit, high = found.time_misfit_s or 0.0, run.training_s.high
        ratio = f"{misfit:+.0f} s, {time.time_s / high:.2f} times the upper end" if misfit > 0 else f"{misfit:+.0f} s"
        table.add_row(
            "all updates", f"{_figures(run.training_s)} s", f"{time.time_s:g} s", ratio if misfit else "inside",
            f"{time.system} (the recipe is rebuilt)",
        )  # fmt: skip
    console.print(table)
    if found.efficiency_misfit or found.time_misfit_s:
        console.print(f"may stand behind a misfit: {'; '.join(CANDIDATES)}", soft_wrap=True)


def _grids(console: Console, found: Prediction) -> None:
    plan = found.model.plan
    title = f"grids of {plan.workers:,} workers, the best first, in the last stage"
    table = _table(title, "", "grid", "averaging, ms", "update, ms")
    own = found.place_of_grid
    for place, one in enumerate(found.grids, start=1):
        if place > MOST_GRIDS and place != own:
            continue
        recipe = found.config.recipe
        is_recipes = (one.grid.vertical, one.grid.horizontal) == (recipe.grid.vertical, recipe.grid.horizontal)
        mark = " (the recipe's)" if is_recipes else " (this run's)" if place == own else ""
        table.add_row(
            f"{place}",
            f"{one.grid}{mark}{', splits a node' * one.splits_a_node}",
            f"{1e3 * one.step.averaging_s:.2f}",
            f"{1e3 * one.step.full_overlap_s:.2f} … {1e3 * one.step.no_overlap_s:.2f}",
        )
    console.print(table)


def _all_reduces(console: Console, found: Prediction) -> None:
    table = _table("all-reduces on this grid", "all-reduce", "averaging, ms", "all updates, s", "node-hours more")
    own = next(one for one in found.all_reduces if one.name == found.model.all_reduce.name)
    for one in found.all_reduces:
        more = [
            found.run.nodes * (theirs - ours) / 3600
            for theirs, ours in ((one.training_s.low, own.training_s.low), (one.training_s.high, own.training_s.high))
        ]
        table.add_row(
            f"{one.name}{' (this run)' * (one is own)}",
            f"{1e3 * one.step.averaging_s:.2f}",
            _figures(one.training_s),
            "" if one is own else f"{more[0]:+.3g} … {more[1]:+.3g}",
        )
    console.print(table)


def _curve(console: Console, found: Prediction) -> None:
    """Efficiency over workers as bars of text: the bracket is drawn thick, a paper's figure as P."""
    batch = found.run.stages[-1].stage.per_worker_batch
    site = found.config.site.name
    console.print(f"efficiency at {batch} images a worker against one node, best grids; P: published")
    console.print(f"{'workers':>8} {ZERO:.0f} %{'':{BAR - 9}}100 %")
    for one in found.curve:
        paper = found.published.efficiency_of(site, one.workers, batch)
        line = [" "] * (BAR + 1)
        for place in range(_place(one.efficiency.low), _place(one.efficiency.high) + 1):
            line[place] = "="
        if paper is not None:
            line[_place(paper.percent)] = "P"
        figures = f"{one.efficiency.low:.1f} … {one.efficiency.high:.1f} %"
        words = f"; {paper.words or f'{paper.percent:g} %'}" if paper else ""
        console.print(f"{one.workers:>8,} |{''.join(line)}| {figures}{words}", soft_wrap=True)


def _place(percent: float) -> int:
    return round(BAR * min(1.0, max(0.0, (percent - ZERO) / (100 - ZERO))))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number == 0 else "right", overflow="fold")
    return table


def _pair(bracket: Bracket) -> list[float]:
    return [bracket.low, bracket.high]


def _figures(bracket: Bracket) -> str:
    return f"{_figure(bracket.low)} … {_figure(bracket.high)}"


def _figure(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 1 or not number else f"{number:.3g}"


def _span(time_s: Bracket) -> str:
    """`6.1 to 7.2 minutes`."""
    units: Iterable[tuple[float, str]] = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))
    size, name = next((size, name) for size, name in units if time_s.high >= size or size == 1)
    return f"{time_s.low / size:.2g} to {time_s.high / size:.2g} {name}"
