"""Scaling efficiency over workers: published, measured, estimated and scale-model figures told apart. Torch-free."""

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pipeline.report.material import Material
from pipeline.report.palette import SERIES
from pipeline.report.plot import STYLE


def draw(material: Material) -> Figure:
    """Table 6 as a picture, all sites together; real images."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 3.8), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        if material.estimated_scaling:
            sizes = sorted(material.estimated_scaling, key=lambda size: size.workers)
            workers = [size.workers for size in sizes]
            brackets = [material.estimated_scaling[size] for size in sizes]
            low, high = [one.low for one in brackets], [one.high for one in brackets]
            axes.fill_between(workers, low, high, color=SERIES[0], alpha=0.3, label="estimated: no to full overlap")
        for number, (name, of) in enumerate(
            (("measured", material.measured_scaling), ("scale model", material.modelled_scaling)), start=1
        ):
            found = [(size.workers, one.efficiency) for size, one in sorted(of.items()) if one.efficiency is not None]
            if found:
                axes.plot(*zip(*found, strict=True), "s", color=SERIES[number], label=name)
        for one in material.published.efficiency:
            above = " and above" if one.and_above else ""
            axes.plot([one.from_workers], [one.percent], "o", color=SERIES[3 + one.and_above],
                      label=f"published: {one.percent:g} % at {one.from_workers:,}{above}")  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xlabel("workers")
        axes.set_ylabel("scaling efficiency, %")
        axes.legend(loc="lower left", fontsize=8)
    return figure


def in_words(material: Material) -> str:
    """What it shows, for whom it cannot be seen."""
    published = ", ".join(f"{one.percent:g} % at {one.from_workers:,}" for one in material.published.efficiency)
    counts = [(len(material.measured_scaling), "measured"), (len(material.modelled_scaling), "scale-model")]
    sizes = ", ".join(f"{number} {name} sizes" for number, name in counts)
    return (
        f"Scaling efficiency over workers: published {published}; beside it {sizes} and the estimate. Table 6 has all"
    )
