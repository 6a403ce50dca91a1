"""Efficiency over workers as a picture, with the figures that papers report. Torch-free."""

import math
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pipeline.estimate.prediction import Prediction
from pipeline.report.palette import SERIES
from pipeline.report.plot import STYLE


def draw(found: Prediction) -> Figure:
    """The bracket from no overlap to full overlap over the number of workers; the papers' points of this site."""
    batch = found.run.stages[-1].stage.per_worker_batch
    workers = [one.workers for one in found.curve]
    low = [one.efficiency.low for one in found.curve]
    high = [one.efficiency.high for one in found.curve]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        axes.fill_between(workers, low, high, color=SERIES[0], alpha=0.3, label="estimate: no overlap to full overlap")
        for edge in (low, high):
            axes.plot(workers, edge, color=SERIES[0], linewidth=1)
        reported = [one for one in found.published.efficiency if one.site == found.config.site.name]
        for number, one in enumerate(reported, start=1):
            words = one.words or f"{one.percent:g} %"
            label = f"{one.system}, {one.from_workers:,} workers: {words}, {one.batch} images a worker"
            axes.plot([one.from_workers], [one.percent], "o", color=SERIES[number % len(SERIES)], label=label)
        axes.set_xscale("log", base=2)
        powers = [one for one in workers if one == workers[0] * 2 ** round(math.log2(one / workers[0]))]
        axes.set_xticks(powers, [f"{one:,}" for one in powers])
        axes.minorticks_off()
        axes.set_xlabel("workers")
        axes.set_ylabel("scaling efficiency against one node, %")
        axes.set_ylim(min(60.0, *low) - 2, 101)
        title = f"{found.config.site.name}, {found.model.all_reduce.name}, {batch} images a worker"
        axes.set_title(title, parse_math=False)
        axes.legend(loc="lower left", fontsize=8)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write it as the file's name says: .png or .svg."""
    with mpl.rc_context(STYLE):
        figure.savefig(path, dpi=150, facecolor="white")
