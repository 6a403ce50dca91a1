"""Time over size of every all-reduce, both logarithmic, with the bound: a picture of a table of rows."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.rows import Row
from pipeline.report.palette import GREY, SERIES
from pipeline.report.plot import STYLE

LINES = ("-", "--")
"""Beyond as many all-reduces as there are colours, lines are dashed."""


def draw(rows: Sequence[Row], title: str, path: Path) -> None:
    """Write the picture to `path` (.png or .svg)."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        names = list(dict.fromkeys(row.algorithm for row in rows))
        for index, name in enumerate(names):
            points = sorted((row.size_bytes / 1e6, 1000 * row.time_s) for row in rows if row.algorithm == name)
            axes.plot(
                *zip(*points, strict=True),
                LINES[index // len(SERIES) % len(LINES)],
                color=SERIES[index % len(SERIES)],
                marker="o",
                markersize=4,
                label=name,
            )
        bound = sorted({(row.size_bytes / 1e6, 1000 * row.bound_s) for row in rows if row.bound_s})
        if bound:
            axes.plot(*zip(*bound, strict=True), ":", color=GREY, label="bound")
        axes.set(xscale="log", yscale="log", xlabel="size, MB", ylabel="time, ms")
        axes.set_title(title, fontsize=8, loc="left", wrap=True)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=150)
