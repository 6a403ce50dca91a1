"""A run on a console: its header, a live bar on a terminal or plain lines in a log, a table at the end. Torch-free."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pipeline.config import Config, Plan
from pipeline.config.plan import to_scale
from pipeline.wording import counted

NOT_TO_SCALE = ", not to scale"
"""Of a scale model whose batch is larger than the paper's share."""


def scale_note(config: Config) -> str:
    """`scale model of 2176 GPUs`, `scale model of 8 GPUs, not to scale`, or `full size`."""
    if config.scale is None:
        return "full size"
    return f"scale model of {config.recipe.workers} GPUs{'' if to_scale(config) else NOT_TO_SCALE}"


def print_header(console: Console, config: Config, plan: Plan) -> None:
    """What is about to run."""
    stages = [
        f"{stage.per_worker_batch}{f' x {stage.micro_batches}' if stage.micro_batches > 1 else ''} a worker, "
        f"{stage.total_batch:,} in all from epoch {stage.start_epoch}"
        for stage in plan.stages
    ]
    by_stage = " + ".join(f"{updates:,}" for updates in plan.updates_by_stage())
    precision = f"{config.precision.compute} arithmetic, {config.allreduce.wire} on the wire"
    if config.precision.loss_scale is not None:
        precision += ", dynamic loss scale"
    table = _two_columns(f"{config.experiment}: {scale_note(config)}")
    table.add_row("recipe", config.recipe.system)
    table.add_row("workers", _workers(plan))
    table.add_row("grid", f"{plan.grid.vertical} x {plan.grid.horizontal} (vertical x horizontal)")
    noise = "noise in the shape of " if config.data.synthetic else ""
    table.add_row("data", f"{noise}{config.data.name}, {plan.samples:,} training images an epoch, {plan.epochs} epochs")
    table.add_row("batch", "\n".join(stages))
    table.add_row("updates", f"{plan.updates:,} ({by_stage})")
    table.add_row("all-reduce", config.allreduce.name)
    table.add_row("precision", precision)
    table.add_row("seed", str(config.seed))
    console.print(table)


def print_averaging(console: Console, averaging: Mapping[str, Any]) -> None:
    """What averages gradients, on what: what `allreduce.json` holds, in a line; the table of `auto`; a warning."""
    vertical, horizontal = averaging["grid"]
    sizes = averaging["bucket_bytes"]
    nodes, buckets = counted(len(averaging["nodes"]), "node"), counted(len(sizes), "bucket")
    chosen = "" if averaging["asked_for"] == averaging["name"] else f" (by {averaging['asked_for']})"
    console.print(
        f"all-reduce: {averaging['name']}{chosen} on {vertical} x {horizontal}, {nodes}; "
        f"{buckets} of up to {max(sizes, default=0) / 1e6:.3g} MB {averaging['wire']}, "
        f"chunks of {averaging['chunk_bytes'] / 1e6:.3g} MB; {averaging['transport']}",
        highlight=False,
        soft_wrap=True,
    )
    if averaging["measured"]:
        table = Table(title="allreduce=auto: all buckets of an update", title_justify="left")
        for name, justify in (("all-reduce", "left"), ("chunk, MB", "right"), ("median, ms", "right")):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        for row in averaging["measured"]:
            table.add_row(row["name"], f"{row['chunk_bytes'] / 1e6:.3g}", f"{1000 * row['median_s']:.2f}")
        console.print(table)
    if averaging["warning"]:
        console.print(f"warning: {averaging['warning']}", highlight=False, soft_wrap=True)


def print_result(console: Console, result: Mapping[str, Any]) -> None:
    """The table at the end of a run, from its result.json."""
    grid, by_stage = result["grid"], result["updates_by_stage"]
    note = f"scale model {_of_gpus(result)}" if result["scale_model"] else "full size"
    table = _two_columns(f"{result['experiment']}: {note}, result")
    if result["top1"] is not None:
        table.add_row("top-1", f"{result['top1']:.2f} % of {result['validation_images']:,} held-out images")
    table.add_row("updates", f"{result['updates']:,} ({' + '.join(f'{one:,}' for one in by_stage)})")
    if result["skipped_updates"]:
        table.add_row("skipped", f"{result['skipped_updates']:,} updates whose gradients overflowed")
    if result.get("replaced_samples"):
        table.add_row("replaced", f"{result['replaced_samples']:,} training images that could not be decoded")
    table.add_row("workers, grid", f"{result['workers']:,}, {grid['vertical']} x {grid['horizontal']}")
    table.add_row("wall time", f"{result['wall_time_s']:.1f} s")
    table.add_row("loop time", f"{result['loop_time_s']:.1f} s")
    table.add_row("images/s", f"{result['images_per_s']:,.0f}")
    table.add_row("in communication", f"{100 * result['communication_share']:.1f} % of the loop")
    console.print(table)


def print_comparison(console: Console, rows: Sequence[tuple[str, Mapping[str, Any] | None]]) -> None:
    """Several runs side by side: (run folder, its result or None where it has none)."""
    table = Table(title="runs", title_justify="left")
    for name in ("experiment", "scale model", "workers", "grid", "updates", "top-1 %", "loop s", "images/s", "comm %"):
        table.add_column(name, justify="left" if name in ("experiment", "scale model") else "right")
    table.add_column("run folder", overflow="fold")
    for folder, result in rows:
        if result is None:
            table.add_row("no result", *[""] * 8, folder)
            continue
        grid = result["grid"]
        table.add_row(
            result["experiment"],
            _of_gpus(result) if result["scale_model"] else "no, full size",
            f"{result['workers']:,}",
            f"{grid['vertical']}x{grid['horizontal']}",
            f"{result['updates']:,}",
            "none" if result["top1"] is None else f"{result['top1']:.2f}",
            f"{result['loop_time_s']:.1f}",
            f"{result['images_per_s']:,.0f}",
            f"{100 * result['communication_share']:.1f}",
            folder,
        )
    console.print(table)


@contextlib.contextmanager
def staging(console: Console, *, every_s: float) -> Iterator[Callable[[int, int], None]]:
    """While samples are read into memory: a function to be told the bytes read and those to be read, on a node."""
    if console.is_terminal:
        columns = (TextColumn("reading samples"), BarColumn(bar_width=None), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, expand=True, transient=True) as bar:
            task = bar.add_task("")
            yield lambda done, wanted: bar.update(task, completed=done, total=wanted)
        return
    shown_s = time.monotonic()

    def tell(done: int, wanted: int) -> None:
        nonlocal shown_s
        if time.monotonic() - shown_s >= every_s:
            shown_s = time.monotonic()
            console.print(f"reading samples: {done / 1e9:.3g} of {wanted / 1e9:.3g} GB on this node", highlight=False)

    yield tell


class ProgressDisplay:
    """The progress of a run: a live bar where the console is a terminal, else a plain line every `every_s` seconds."""

    def __init__(self, console: Console, plan: Plan, *, first_update: int, every_s: float) -> None:
        self._console = console
        self._plan = plan
        self._every_s = every_s
        self._last_line_s = -math.inf
        self._rate = _Rate(first_update)
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (
                BarColumn(bar_width=None),
                TextColumn("{task.percentage:>3.0f}%"),
                TextColumn("{task.description}"),
            )
            self._bar = Progress(*columns, console=console, expand=True)
            self._task = self._bar.add_task("starting", total=plan.updates, completed=first_update)
            self._bar.start()

    def show(self, line: Mapping[str, Any]) -> None:
        """Show the newest line of metrics.jsonl."""
        per_s = self._rate.add(line["update"], line["batch"], line["time_s"])
        text = self._describe(line, per_s)
        if self._bar is not None:
            self._bar.update(self._task, completed=line["update"], description=text)
        elif time.monotonic() - self._last_line_s >= self._every_s or line["update"] == self._plan.updates:
            self._last_line_s = time.monotonic()
            self._console.print(text, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """One line beside the progress."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _describe(self, line: Mapping[str, Any], per_s: float) -> str:
        images_left = self._plan.images(self._plan.updates) - self._plan.images(line["update"])
        left = timedelta(seconds=round(images_left / per_s)) if per_s else "unknown"
        epochs = self._epochs_done(line["update"])
        return (
            f"epoch {epochs:.1f}/{self._plan.epochs} update {line['update']}/{self._plan.updates} "
            f"loss {line['loss']:.3f} LR {_lr(line['lr'])} momentum {line['momentum']:.3f} batch {line['batch']} "
            f"{per_s:,.0f} images/s ETA {left}"
        )

    def _epochs_done(self, update: int) -> float:
        """Epochs that are done after `update` updates."""
        epoch, inside = self._plan.position(update)
        return epoch + inside / self._plan.stage_at(epoch).updates_per_epoch


class _Rate:
    """Images a second over the last seconds."""

    def __init__(self, first_update: int) -> None:
        self._points: list[tuple[float, int]] = [(0.0, 0)]
        self._images = 0
        self._update = first_update

    def add(self, update: int, batch: int, time_s: float) -> float:
        self._images += batch * (update - self._update)
        self._update = update
        self._points = [point for point in self._points if point[0] > time_s - 10] + [(time_s, self._images)]
        first_s, first_images = self._points[0]
        return (self._images - first_images) / (time_s - first_s) if time_s > first_s else 0.0


def _lr(lr: float) -> str:
    """Three decimals, or three digits where those would be too few, as in scale models of plain SGD."""
    return f"{lr:.3f}" if lr == 0 or lr >= 0.1 else f"{lr:.3g}"


def _of_gpus(result: Mapping[str, Any]) -> str:
    """Of which recipe a result's scale model is one; runs from before there was `to_scale` all were."""
    return f"of {result['gpus']} GPUs{'' if result.get('to_scale', True) else NOT_TO_SCALE}"


def _workers(plan: Plan) -> str:
    if plan.workers == plan.virtual_workers:
        return f"{plan.workers:,}"
    return f"{plan.workers:,} for {plan.virtual_workers:,} virtual ones"


def _two_columns(title: str) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    return table
