"""Runs of scale models one after another on this machine: begun, gone on with, or done already. Torch-free."""

import copy
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import fmean

from rich.console import Console

from jobs import compose, local, prepare
from jobs.command_line import fail
from jobs.study_progress import StudyProgress
from pipeline.config import Config, load, make_plan
from pipeline.config.differences import differences
from pipeline.config.identity import is_kept
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, EXIT_SAVED, RunFolder
from pipeline.wording import counted

A_RUN_S = 120.0
"""What a run takes on two cores that nobody else uses, until one is done: 100 to 150 s were seen."""


@dataclass(frozen=True)
class Planned:
    """A run of the study."""

    folder: RunFolder
    config: Config
    words: list[str]
    """That it is composed from."""

    @property
    def name(self) -> str:
        return f"{self.config.experiment}, seed {self.config.seed}"

    def is_done(self) -> bool:
        """Whether it has all its updates. Raises UserError for a damaged result."""
        result = self.folder.read_result()
        return bool(result and result["complete"])

    def took_s(self) -> float | None:
        """Its wall time, where it is done and says it."""
        result = (self.folder.read_result() if self.is_done() else None) or {}
        found = result.get("wall_time_s")
        return float(found) if isinstance(found, int | float) else None


def with_seeds(name: str, seeds: Sequence[int], words: Sequence[str], folders: Mapping[int, Path]) -> list[Planned]:
    """Runs of an experiment that differ in their seed; composed once, since that takes longer than all else here."""
    base = [f"exp={name}", "site=local", "data=study", "run.tensorboard=false", *words]
    config = compose.compose(base)
    found = []
    for seed in seeds:
        own = copy.deepcopy(config)
        own.seed, own.run.dir = seed, str(folders[seed])
        made_of = [*base, f"seed={seed}", f"run.dir={json.dumps(own.run.dir)}"]
        found.append(Planned(RunFolder(folders[seed]), own, made_of))
    return found


def run_all(runs: Sequence[Planned], console: Console) -> int:
    """Run what is not done, one after another; what fails is told, and the others run all the same."""
    for one in runs:
        check_alike(one)
    todo = [one for one in runs if not one.is_done()]
    print(in_advance(runs, len(todo)), flush=True)
    code = EXIT_DONE
    with StudyProgress(console, len(runs), len(runs) - len(todo)) as progress:
        for one in todo:
            progress.begin(one.name, one.folder, make_plan(one.config).updates)
            ended = run_one(one)
            if ended == EXIT_SAVED:  # whoever stops one does not want those after it
                return EXIT_SAVED
            code = code or ended
            progress.end(in_a_line(one), left_s=expected_s(runs, todo[todo.index(one) + 1 :]))
    return code


def check_alike(one: Planned) -> None:
    """Raise UserError where a run's folder is of another recipe than conf/ has now."""
    if not one.folder.config.is_file():
        return
    old, data = load(one.folder.config), str(compose.REPOSITORY / one.config.data.path)
    found = differences(old, one.config)
    differs = {key: of for key, of in found.items() if is_kept(key) and not key.startswith("site.")}
    if old.data.path != data:
        differs["data.path"] = (old.data.path, data)
    for key, (was, is_now) in differs.items():
        raise UserError(f"{one.folder} was made with {key}={was}, and it is {is_now} now; remove it, or name --runs")


def run_one(one: Planned) -> int:
    """Begin a run, or go on with it; returns its exit code, after one line where it failed."""
    try:
        if one.folder.config.is_file() and one.folder.script.is_file():
            with prepare.going_on(str(one.folder.path), []) as folder:
                return local.run(folder, shown=False)
        remove_unbegun(one.folder)
        prepare.create(one.config, one.words)
        return local.run(one.folder, shown=False)
    except UserError as error:
        return fail(f"{one.name}: {error}")


def remove_unbegun(folder: RunFolder) -> None:
    """Remove what is there of a run that was broken off before its script was written. Raises UserError for more."""
    if folder.latest_attempt() is not None:
        raise UserError(f"{folder} has attempts and no configuration or script; remove it, and it is run anew")
    if folder.path.exists():
        shutil.rmtree(folder.path)


def expected_s(runs: Sequence[Planned], left: Sequence[Planned]) -> float:
    """Seconds that `left` will take, as the runs did that are done."""
    took = [found for one in runs if (found := one.took_s()) is not None]
    return len(left) * (fmean(took) if took else A_RUN_S)


def in_advance(runs: Sequence[Planned], left: int) -> str:
    """What is going to happen, in a line."""
    whole = timedelta(seconds=round(expected_s(runs, runs[:left])))
    measured = any(one.took_s() is not None for one in runs)
    source = "as those that are done" if measured else f"at {A_RUN_S:.0f} s a run on two cores that nobody else uses"
    return (
        f"study: {counted(len(runs), 'run')}, {len(runs) - left} done; the others take about {whole} ({source}). "
        "Ctrl-C saves and stops; make study goes on"
    )


def in_a_line(one: Planned) -> str:
    """What came of a run."""
    try:
        result = one.folder.read_result() or {}
    except UserError as error:
        return f"{one.name}: {error}"
    if result.get("top1") is None:
        return f"{one.name}: no result"
    return f"{one.name}: top-1 {result['top1']:.2f} %, {one.took_s() or 0:.0f} s"
