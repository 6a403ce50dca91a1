"""All runs in one table: `python -m jobs.status [RUN…] [--runs FOLDER] [--json]`. Torch-free.

A row is read from a run folder, and from its scheduler only where the folder does not say all. A folder that cannot be
read is a row that says why. On a terminal a table; elsewhere a line a run, columns two blanks apart, for grep and awk.
"""

import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.allocation import allocate
from jobs.command_line import Parser, run
from jobs.run_folders import chosen
from jobs.scheduler import Scheduler, Sighting, end_calls, find
from jobs.state import Ask, Word, find_out
from pipeline.config import Plan, load, make_plan
from pipeline.config.site import SiteConfig
from pipeline.errors import UserError
from pipeline.metrics import newest_lines
from pipeline.run_folder import EXIT_DONE, RunFolder

ASKED_AT_ONCE = 8
"""Questions to schedulers that are on their way at a time."""


@dataclass(frozen=True)
class Row:
    """One run, as a person and a program see it; None and "" where there is nothing to say."""

    run: str
    """Its folder, as it would be written at the current one."""
    experiment: str = ""
    site: str = ""
    nodes: int | None = None
    workers_per_node: int | None = None
    job_id: str = ""
    state: Word = "unknown"
    update: int | None = None
    """Updates done."""
    updates: int | None = None
    """Updates of the whole run."""
    eta_s: float | None = None
    """Seconds until it ends as it goes now; only while it runs."""
    top1: float | None = None
    """Percent, of the newest validation."""
    starts: int = 0
    """How often it was started again."""
    slow: int = 0
    """Updates that took far longer than the others; slow.jsonl says who held them up."""
    why: str = ""
    """Why it waits, failed or cannot be told of."""


class Schedulers:
    """Asks the schedulers of all sites; one that could not be asked is not asked again, so that it delays only once."""

    def __init__(self, find: Callable[[str], Scheduler] = find) -> None:
        self._find = find
        self._silent: dict[tuple[str, str], str] = {}

    def of(self, site: SiteConfig) -> Ask | None:
        """What to ask of a site's jobs; None for this machine, which has no scheduler."""
        return None if site.scheduler == "local" else lambda job_id: self._ask(site, job_id)

    def _ask(self, site: SiteConfig, job_id: str) -> Sighting:
        key = (site.scheduler, site.name)
        if key in self._silent:
            return Sighting("unanswered", reason=self._silent[key])
        seen = self._find(site.scheduler).ask(job_id)
        if seen.phase == "unanswered":
            self._silent[key] = seen.reason
        return seen


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make status", description=__doc__)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run folders, or folders of them; all by default")
    parser.add_argument("--runs", dest="top", type=Path, metavar="FOLDER", help="where runs lie (runs/)")
    parser.add_argument("--json", action="store_true", help="a list for programs")
    options = parser.parse_args(arguments)
    if options.top is not None and not options.top.is_dir():
        raise UserError(f"{options.top}: no such folder")
    folders = chosen(options.runs, options.top or Path("runs"))
    rows = read_all(folders, Schedulers())
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    elif not rows:
        print(f"no runs in {options.top or 'runs/'} yet")
    else:
        show(rows, Console(highlight=False))
    return EXIT_DONE


def read_all(folders: Sequence[RunFolder], schedulers: Schedulers) -> list[Row]:
    """A row a folder, in their order."""
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        asked = [pool.submit(read, folder, schedulers) for folder in folders]
        try:
            return [one.result() for one in asked]
        except BaseException:  # Ctrl-C: what is asked now may take a minute to answer
            pool.shutdown(wait=False, cancel_futures=True)
            while wait(asked, timeout=0.05).not_done:
                end_calls()
            raise


def read(folder: RunFolder, schedulers: Schedulers) -> Row:
    """The row of a run, whatever its folder holds."""
    try:
        return _read(folder, schedulers)
    except UserError as error:
        why = str(error)
    except FileNotFoundError as error:
        why = f"{error.filename} is missing"
    except PermissionError as error:
        why = f"cannot be read: {error.filename}: {error.strerror}"
    except Exception as error:  # one damaged folder must not hide the others
        why = f"cannot be read: {type(error).__name__}: {error}"
    try:
        gone = not folder.path.is_dir()
    except OSError:
        gone = False
    return Row(str(folder), why="was removed meanwhile" if gone else why)


def _read(folder: RunFolder, schedulers: Schedulers) -> Row:
    config = load(folder.config)
    plan = make_plan(config)
    asked = allocate(config, plan)
    state = find_out(folder, schedulers.of(config.site))
    lines, sound = newest_lines(folder.metrics)
    slow = _slow(folder)
    row = Row(
        run=str(folder),
        experiment=config.experiment,
        site=config.site.name,
        nodes=asked.nodes,
        workers_per_node=asked.workers_per_node,
        job_id=state.job_id,
        state=state.word,
        update=lines[-1]["update"] if lines else 0,
        updates=plan.updates,
        eta_s=eta_s(lines, plan, plan.last_update(config.run)) if state.word == "running" else None,
        starts=_starts(folder),
        slow=len(slow),
        why=state.why,
    )
    if slow and state.word == "running":
        row = replace(row, why="; ".join(filter(None, [row.why, f"newest slow update: {slow[-1]['line']}"])))
    faults = [] if sound or state.word == "running" else ["metrics.jsonl ends in half a line"]
    try:
        row = replace(row, top1=_top1(folder))
    except UserError as error:
        faults.append(str(error))
    return replace(row, why="; ".join(filter(None, [row.why, *faults])))


def eta_s(lines: Sequence[dict[str, Any]], plan: Plan, last: int) -> float | None:
    """Seconds until update `last`, at the images a second of the newest lines; None where they do not say.

    Of an earlier attempt's lines, whose clock was another, none counts.
    """
    first = len(lines) - 1
    while first > 0 and lines[first - 1]["time_s"] < lines[first]["time_s"]:
        first -= 1
    if first < 0 or first == len(lines) - 1:
        return None
    newest, oldest = lines[-1], lines[first]
    images = plan.images(newest["update"]) - plan.images(oldest["update"])
    left = plan.images(last) - plan.images(newest["update"])
    return left * (newest["time_s"] - oldest["time_s"]) / images if images > 0 else None


def _top1(folder: RunFolder) -> float | None:
    validations, _ = newest_lines(folder.validations)
    if validations:
        return float(validations[-1]["top1"])
    result = folder.read_result() or {}
    return result.get("top1")


def _slow(folder: RunFolder) -> list[dict[str, Any]]:
    """The newest lines of slow.jsonl."""
    return [line for line in newest_lines(folder.slow_updates)[0] if isinstance(line.get("line"), str)]


def _starts(folder: RunFolder) -> int:
    try:
        return int(folder.starts.read_text())
    except (OSError, ValueError):
        return 0


COLUMNS = (
    "run",
    "experiment",
    "site",
    "nodes x workers",
    "job",
    "state",
    "progress",
    "ETA",
    "top-1",
    "starts",
    "slow",
    "why",
)


def show(rows: Sequence[Row], console: Console) -> None:
    """The table on a terminal; elsewhere plain lines, as wide as they are."""
    cells = [_cells(row) for row in rows]
    if not console.is_terminal:
        widths = [max(map(len, column)) for column in zip(COLUMNS, *cells, strict=True)]
        for line in [COLUMNS, *cells]:
            padded = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            console.file.write(padded.rstrip() + "\n")
        return
    table = Table(title="runs", title_justify="left")
    for name in COLUMNS:
        table.add_column(name, overflow="fold")
    for line in cells:
        table.add_row(*map(Text, line))
    console.print(table)


def _cells(row: Row) -> tuple[str, ...]:
    progress = ""
    if row.update is not None and row.updates:
        progress = f"update {row.update:,} of {row.updates:,} ({100 * row.update // row.updates} %)"
    cells = (
        row.run,
        row.experiment,
        row.site,
        "" if row.nodes is None else f"{row.nodes} x {row.workers_per_node}",
        row.job_id,
        row.state,
        progress,
        "" if row.eta_s is None else str(timedelta(seconds=max(0, round(row.eta_s)))),
        "" if row.top1 is None else f"{row.top1:.2f} %",
        str(row.starts or ""),
        str(row.slow or ""),
        row.why,
    )
    return tuple(_printable(cell) or "-" for cell in cells)


def _printable(text: str) -> str:
    """On one line and without what would command a terminal: a log's last words may hold anything."""
    return "".join(one if one.isprintable() else " " for one in text)


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
