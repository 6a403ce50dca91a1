"""How far the study is: a live bar on a terminal, elsewhere a line a run. Torch-free."""

import threading
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipeline.errors import UserError
from pipeline.metrics import newest_lines
from pipeline.run_folder import RunFolder

LOOKED_EVERY_S = 1.0


class StudyProgress:
    """Two bars: the runs that are done, and the updates of the one that is on its way."""

    def __init__(self, console: Console, runs: int, done: int) -> None:
        self._console = console
        self._runs, self._done = runs, done
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bars = Progress(*columns, console=console, expand=True, disable=not console.is_terminal)
        self._study = self._bars.add_task("runs", total=runs, completed=done)
        self._run = self._bars.add_task("", total=1, visible=False)
        self._ended = threading.Event()
        self._watched: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop_watching()
        self._bars.stop()

    def begin(self, name: str, folder: RunFolder, updates: int) -> None:
        """A run starts, or goes on."""
        self._bars.reset(self._run, description=name, total=updates, visible=True)
        if self._console.is_terminal:
            self._ended = threading.Event()
            self._watched = threading.Thread(target=self._watch, args=(folder, self._ended), daemon=True)
            self._watched.start()

    def end(self, line: str, *, left_s: float) -> None:
        """It is over. left_s: what those after it will take."""
        self._stop_watching()
        self._done += 1
        self._bars.advance(self._study)
        left = f", {timedelta(seconds=round(left_s))} left" if left_s else ""
        self._console.print(
            f"{self._done} of {self._runs}: {line}{left}", highlight=False, markup=False, soft_wrap=True
        )

    def _watch(self, folder: RunFolder, ended: threading.Event) -> None:
        while not ended.wait(LOOKED_EVERY_S):
            try:
                lines, _ = newest_lines(folder.metrics)
            except (OSError, UserError):
                continue
            if lines:
                self._bars.update(self._run, completed=lines[-1]["update"])

    def _stop_watching(self) -> None:
        self._ended.set()
        if self._watched is not None:
            self._watched.join()
            self._watched = None
