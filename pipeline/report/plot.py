"""A run's training as the paper's Fig. 3 shows it: `python -m pipeline.report.plot RUN [RUN …]`, or `make plot RUN=…`.

In: the run folders' metrics.jsonl and validations.jsonl. Out: plots/training.svg and .png in it, with training and
validation error over epochs, and under them LR, momentum and batch. Several runs are drawn together, into
plots/together.svg and .png of the first. Torch-free.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pipeline.config import load
from pipeline.errors import UserError
from pipeline.metrics import read_metrics
from pipeline.report.console import scale_note
from pipeline.report.palette import GREY, SERIES
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED, RunFolder

OF_AN_UPDATE = ("epoch", "training_error", "lr", "momentum", "batch")

MOST = 1e15
"""Of any value that is drawn: a scale can be made for it."""

SMOOTHED_EPOCHS = 1.0
"""The smoothed line is the mean over so many epochs around a point."""

STYLE: dict[Any, Any] = {
    "text.color": GREY, "axes.labelcolor": GREY, "axes.edgecolor": GREY, "xtick.color": GREY, "ytick.color": GREY,
    "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none", "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "font.size": 10, "svg.fonttype": "none",
    "svg.hashsalt": "torus224", "text.parse_math": False, "axes.grid": True, "grid.color": GREY, "grid.alpha": 0.2,
}  # fmt: skip


@dataclass(frozen=True)
class Curves:
    """What is drawn of a run: a value an update, but for the validations."""

    label: str
    note: str
    """`scale model of 2176 GPUs`, or `full size`."""
    epoch: NDArray[np.float64]
    training_error: NDArray[np.float64]
    """Percent."""
    lr: NDArray[np.float64]
    momentum: NDArray[np.float64]
    batch: NDArray[np.float64]
    validation_epoch: NDArray[np.float64]
    validation_error: NDArray[np.float64]
    """Percent."""


def main(arguments: list[str]) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog='make plot RUN="runs/… runs/…"', description=__doc__)
    parser.add_argument("runs", nargs="+", help="run folders; the pictures go to the first one's plots/")
    options = parser.parse_args(arguments)
    os.umask(0o077)  # a run folder is its owner's
    try:
        folders = [RunFolder.open(run) for run in options.runs]
        figure = draw(read(folders))
        with folders[0].writing():
            paths = save(figure, folders[0].plots, "training" if len(folders) == 1 else "together")
        for path in paths:
            print(path)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_DONE


def read(folders: Sequence[RunFolder]) -> list[Curves]:
    """The curves of runs. Raises UserError for one that has no updates to show yet."""
    configs = [load(folder.config) for folder in folders]
    alike = Counter(config.experiment for config in configs)
    curves = []
    for folder, config in zip(folders, configs, strict=True):
        updates = read_metrics(folder.metrics)
        if not updates:
            raise UserError(f"{folder}: no metrics yet; they come with its first updates, so plot it again later")
        name = config.experiment
        label = name if alike[name] == 1 else f"{name} ({folder.path.name})"
        validations = read_metrics(folder.validations)
        curves.append(
            Curves(
                label=label,
                note=scale_note(config),
                **{name: column(folder.metrics, updates, name) for name in OF_AN_UPDATE},
                validation_epoch=column(folder.validations, validations, "epoch"),
                validation_error=100 - column(folder.validations, validations, "top1"),
            )
        )
    return curves


def column(path: Path, lines: Sequence[dict[str, Any]], name: str) -> NDArray[np.float64]:
    """One value of every line of a file, (lines,). Raises UserError for a line that does not have it as a number."""
    for line in lines:
        value = line.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
            found = f"is {value!r:.40}" if name in line else "is not there"
            raise UserError(f"{path}: {name} of update {line['update']} {found}; mend that line or remove it")
    return np.array([line[name] for line in lines], dtype=np.float64)


def smoothed(epoch: NDArray[np.float64], values: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """At each point the mean of the values at most width/2 epochs away; all (n,), epoch rising."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    first = np.searchsorted(epoch, epoch - width / 2, side="left")
    last = np.searchsorted(epoch, epoch + width / 2, side="right")
    means: NDArray[np.float64] = (sums[last] - sums[first]) / (last - first)
    return means


def draw(runs: Sequence[Curves]) -> Figure:
    """The figure of one run or of several together."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 7.2), layout="constrained")
        rows = figure.subplots(4, 1, sharex=True, height_ratios=[5, 1.2, 1.2, 1.2])
        figure.suptitle(title(runs), fontsize=12)
        for index, run in enumerate(runs):
            colour = SERIES[index % len(SERIES)]
            _draw_errors(rows[0], run, colour, several=len(runs) > 1)
            width = 1.8 + 1.8 * (len(runs) - 1 - index)  # where schedules coincide the earlier shows around the later
            for axes, values in zip(rows[1:], (run.lr, run.momentum, run.batch), strict=True):
                axes.plot(run.epoch, values, color=colour, linewidth=width)
        rows[0].set_ylabel("error, %")
        rows[0].set_ylim(0, 100)
        rows[0].legend(ncols=2 if len(runs) > 1 else 1, loc="best")
        for axes, name in zip(rows[1:], ("LR", "momentum", "batch"), strict=True):
            axes.set_ylabel(name)
            axes.margins(y=0.15)
        rows[-1].set_xlabel("epoch")
        rows[-1].set_xlim(left=0)
        figure.align_ylabels(rows)
    return figure


def title(runs: Sequence[Curves]) -> str:
    """Says what is drawn, and of each run whether it is a scale model."""
    if len(runs) == 1:
        return f"{runs[0].label}: {runs[0].note}"
    if len({run.note for run in runs}) == 1:
        return f"{', '.join(run.label for run in runs)}: {runs[0].note}"
    return "; ".join(f"{run.label}: {run.note}" for run in runs)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write NAME.svg and NAME.png, both with a transparent background; returns their paths."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    with mpl.rc_context(STYLE):
        figure.savefig(paths[0], metadata={"Date": None})
        FigureCanvasAgg(figure)
        figure.savefig(paths[1], dpi=150)
    return paths


def _draw_errors(axes: Any, run: Curves, colour: str, *, several: bool) -> None:
    prefix = f"{run.label}, " if several else ""
    axes.plot(run.epoch, run.training_error, color=colour, linewidth=0.6, alpha=0.25)
    line = smoothed(run.epoch, run.training_error, SMOOTHED_EPOCHS)
    axes.plot(run.epoch, line, color=colour, linewidth=1.8, label=f"{prefix}training")
    marked = colour if several else SERIES[1]
    axes.plot(
        run.validation_epoch, run.validation_error, color=marked, linewidth=0, marker="o", markersize=5.5,
        markerfacecolor="none", markeredgewidth=1.8, label=f"{prefix}validation",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
