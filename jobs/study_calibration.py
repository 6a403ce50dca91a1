"""How hard the study's sample is: a rule that was fixed before any run, applied and printed. Torch-free.

Of the levels of noise in LEVELS, rising, the first at which the reference's mean top-1 over SEEDS, which the study does
not use, lies in BAND: high enough that the network learns, low enough that recipes can differ. That level then stands
in conf/data/study.yaml's path.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from rich.console import Console

from jobs import compose, study_sample
from jobs.study_runs import Planned, run_all, with_seeds
from pipeline.errors import UserError
from pipeline.report.figure3 import REFERENCE
from pipeline.run_folder import EXIT_DONE

SEEDS = (100, 101)

LEVELS = range(0, 321, 40)
"""Standard deviations of the noise, of pixels in 0 to 255."""

BAND = (85.0, 95.0)
"""Percent."""


def calibrate(top: Path, words: Sequence[str], console: Console) -> int:
    """Apply the rule, and say what it found. Raises UserError where no level does."""
    found = {}
    for level in LEVELS:
        path = study_sample.folder_of(level)
        study_sample.write_once(path)
        folders = {seed: top / f"noise-{level}" / f"seed-{seed}" for seed in SEEDS}
        runs = with_seeds(REFERENCE, SEEDS, [f"data.path={path}", *words], folders)
        code = run_all(runs, console)
        if code != EXIT_DONE:
            return code
        found[level] = fmean(top1_of(one) for one in runs)
        low, high = BAND
        print(f"noise {level}: top-1 {found[level]:.2f} %, mean of seeds {SEEDS}", flush=True)
        if low <= found[level] <= high:
            now = study_sample.level_of(compose.compose(["data=study"]).data.path)
            print(f"noise {level} it is: the first in {low:g} to {high:g} %; conf/data/study.yaml has {now}")
            return EXIT_DONE
    raise UserError(f"no noise of {', '.join(map(str, LEVELS))} brings top-1 into {BAND[0]:g} to {BAND[1]:g} %")


def top1_of(one: Planned) -> float:
    """Percent. Raises UserError for a run that was not validated."""
    top1 = (one.folder.read_result() or {}).get("top1")
    if top1 is None:
        raise UserError(f"{one.folder}: it has no top-1")
    return float(top1)
