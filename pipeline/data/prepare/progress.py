"""The progress of a preparation: a live bar on a terminal, a line now and then in a log."""

import time
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich import progress
from rich.console import Console

LINE_EVERY_S = 10.0


class Progress:
    """Counts shards and images; of the images only those that this run does."""

    def __init__(self, console: Console, shards_done: int, shards: int, images: int) -> None:
        self._console = console
        self._shards_done, self._shards = shards_done, shards
        self._images_done, self._images = 0, images
        self._started_s = self._last_line_s = time.monotonic()
        columns = (progress.BarColumn(), progress.TextColumn("{task.description}"))
        self._bar = progress.Progress(*columns, console=console) if console.is_terminal else None
        self._task = self._bar.add_task(self._describe(), total=images) if self._bar else None

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if self._images_done:
            taken_s = time.monotonic() - self._started_s
            rate = f"{self._images_done / taken_s:,.0f} images/s"
            self._console.print(
                f"{self._images_done:,} images in {timedelta(seconds=round(taken_s))}: {rate}", highlight=False
            )

    def add(self, images: int) -> None:
        """One more shard, of so many images."""
        self._shards_done += 1
        self._images_done += images
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=self._images_done, description=self._describe())
        elif time.monotonic() - self._last_line_s >= LINE_EVERY_S:
            self._last_line_s = time.monotonic()
            self._console.print(self._describe(), highlight=False, soft_wrap=True)

    def _describe(self) -> str:
        per_s = self._images_done / max(1e-9, time.monotonic() - self._started_s)
        left = timedelta(seconds=round((self._images - self._images_done) / per_s)) if per_s else "unknown"
        return f"shard {self._shards_done:,}/{self._shards:,} {per_s:,.0f} images/s ETA {left}"
