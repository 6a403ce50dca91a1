"""Scaling efficiency over workers: published, measured, estimated and scale-model figures told apart. Torch-free."""

from collections import defaultdict

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pipeline.published import Efficiency
from pipeline.report.material import Material, Size
from pipeline.report.palette import SERIES
from pipeline.report.plot import STYLE

USUAL = 32
"""Images a worker of `make scaling`, as the paper measured it."""


def draw(material: Material) -> Figure:
    """Table 6 as a picture, all sites together; real images."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 3.8), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        _draw_estimates(axes, material)
        for number, (name, of) in enumerate(
            (("measured", material.measured_scaling), ("scale model", material.modelled_scaling)), start=1
        ):
            found = [(size.workers, one.efficiency) for size, one in sorted(of.items()) if one.efficiency is not None]
            if found:
                axes.plot(*zip(*found, strict=True), "s", color=SERIES[number], label=name)
        for one in material.published.efficiency:
            marker = ">" if one.and_above else "o" if one.batch == USUAL else "D"
            axes.plot([one.from_workers], [one.percent], marker, color=SERIES[3 + one.and_above],
                      label=f"published: {_published(one)}, {one.batch} images a worker")  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xlabel("workers")
        axes.set_ylabel("scaling efficiency, %")
        axes.legend(loc="lower left", fontsize=8)
    return figure


def _draw_estimates(axes: Axes, material: Material) -> None:
    """A band where a batch has several sizes, else a bar: figures of two batches are on no common line."""
    by_batch: defaultdict[int, list[Size]] = defaultdict(list)
    for size in sorted(material.estimated_scaling, key=lambda one: one.workers):
        by_batch[size.batch].append(size)
    for batch, sizes in sorted(by_batch.items(), reverse=True):
        workers = [size.workers for size in sizes]
        brackets = [material.estimated_scaling[size] for size in sizes]
        low, high = [one.low for one in brackets], [one.high for one in brackets]
        words = f"estimated: no to full overlap, {batch} images a worker"
        if len(sizes) > 1:
            axes.fill_between(workers, low, high, color=SERIES[0], alpha=0.3, label=words)
        else:
            axes.vlines(workers, low, high, color=SERIES[0], alpha=0.6, linewidth=5, label=words)


def _published(one: Efficiency) -> str:
    return f"{one.percent:g} % {'above' if one.and_above else 'at'} {one.from_workers:,}"


def in_words(material: Material) -> str:
    """What it shows, for whom it cannot be seen."""
    published = ", ".join(map(_published, material.published.efficiency))
    counts = [(len(material.measured_scaling), "measured"), (len(material.modelled_scaling), "scale-model")]
    sizes = ", ".join(f"{number} {name} sizes" for number, name in counts)
    return (
        f"Scaling efficiency over workers: published {published}; beside it {sizes} and the estimate. Table 6 has all"
    )
