"""The paper's Figure 3: training error by epoch, each experiment against the reference, and validation. Torch-free.

In: curves by experiment, means over its runs. A panel an experiment, since a dozen curves in one would hide each other.
Same curves, same bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pipeline.report.curves import Curve
from pipeline.report.palette import GREY, SERIES
from pipeline.report.plot import STYLE

REFERENCE = "reference"
PANEL = (3.4, 2.5)
"""Width and height in inches."""
MOST_COLUMNS = 3


@dataclass(frozen=True)
class Panel:
    """An experiment beside the reference."""

    title: str
    curve: Curve
    reference: Curve | None
    """None: there is none to compare with, or this is the reference itself."""

    def in_words(self) -> str:
        """What the panel shows, for whom it cannot be seen."""
        words = [f"{self.title}: {_ends(self.curve)}"]
        if self.reference is not None:
            words.append(f"reference: {_ends(self.reference)}")
        return "; ".join(words)


def panels(curves: Mapping[str, Curve], titles: Mapping[str, str]) -> list[Panel]:
    """A panel an experiment that has a curve, in the order of `titles` (experiment, title)."""
    drawn = [name for name in titles if name in curves and curves[name].training]
    reference = curves.get(REFERENCE)
    return [Panel(titles[name], curves[name], None if name == REFERENCE else reference) for name in drawn]


def draw(of: Sequence[Panel], title: str = "") -> Figure:
    """All panels in one figure."""
    across = min(MOST_COLUMNS, len(of))
    down = -(-len(of) // across)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(PANEL[0] * across, PANEL[1] * down + (0.4 if title else 0)), layout="constrained")
        FigureCanvasAgg(figure)
        if title:
            figure.suptitle(title, fontsize=11)
        places = list(figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).flat)
        for axes, panel in zip(places, of, strict=False):
            _draw(axes, panel)
        for axes in places[len(of) :]:
            axes.set_axis_off()
    return figure


def save(figure: Figure, path: Path) -> list[Path]:
    """Write PATH.svg and PATH.png; returns both."""
    svg, png = path.with_suffix(".svg"), path.with_suffix(".png")
    svg.write_bytes(as_svg(figure))
    with mpl.rc_context(STYLE):
        FigureCanvasAgg(figure)
        figure.savefig(png, dpi=150, metadata={"Software": None})
    return [svg, png]


def as_svg(figure: Figure) -> bytes:
    """The figure as SVG, without a date."""
    stream = BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def _draw(axes: Any, panel: Panel) -> None:
    if panel.reference is not None:
        _lines(axes, panel.reference, GREY, "reference")
    _lines(axes, panel.curve, SERIES[0], panel.title)
    axes.set_title(panel.title, fontsize=10)
    axes.set_ylim(0, 100)
    axes.set_xlabel("epoch")
    axes.set_ylabel("error, %")
    axes.legend(fontsize=7, loc="upper right")


def _lines(axes: Any, curve: Curve, colour: str, name: str) -> None:
    axes.plot(
        list(curve.training), list(curve.training.values()), color=colour, linewidth=1.4, label=f"{name}, training"
    )
    axes.plot(
        list(curve.validation), list(curve.validation.values()), color=colour, linewidth=0, marker="o", markersize=3.5,
        markerfacecolor="none", label=f"{name}, validation",
    )  # fmt: skip


def _ends(curve: Curve) -> str:
    """`training error 2.1 % and validation error 9.0 % at the end`."""
    words = [f"training error {list(curve.training.values())[-1]:.1f} %"] if curve.training else []
    words += [f"validation error {list(curve.validation.values())[-1]:.1f} %"] if curve.validation else []
    return f"{' and '.join(words) or 'no errors'} at the end"
