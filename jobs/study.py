"""Scale models of all experiments on this machine, over several seeds: `python -m jobs.study [OVERRIDE …]`. Torch-free.

The reference and Exp. 1 to 6 run with five seeds each, which make pairs, all others with two, one run after another
into runs/study/. What is finished stays, what was broken off goes on. When all are done the results are written, with
--report at any time from what is done: a table with differences to the reference, curves, a summary for programs.
--calibrate looks for the noise that makes the sample hard enough to tell recipes apart (study_calibration.py).
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from jobs import compose, scaling, study_sample, words_of_make
from jobs.command_line import Parser, run
from jobs.published import read
from jobs.study_calibration import calibrate
from jobs.study_runs import Planned, run_all, with_seeds
from pipeline.errors import UserError
from pipeline.report.recipes import in_order
from pipeline.run_folder import EXIT_DONE
from pipeline.wording import counted

TOP = Path("runs/study")
OUTPUT = Path("docs/results")
PAIRED = ("reference", "exp1", "exp2", "exp3", "exp4", "exp5", "exp6")
PAIRED_SEEDS = range(5)
OTHER_SEEDS = range(2)

OWN = ("exp", "site", "scale", "seed", "run.dir", "run.resume", "data", "data.path")
"""Keys that the study sets."""


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make study", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="overrides for all runs")
    parser.add_argument("--experiments", metavar="A,B", help="these only; all of conf/exp/ by default")
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help=f"where the runs are ({TOP})")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER", help=f"for the results ({OUTPUT})")
    parser.add_argument("--report", action="store_true", help="the results of what is done, without running any")
    parser.add_argument("--calibrate", action="store_true", help="find the noise of the sample, by its rule")
    given = parser.parse_args(arguments)
    if given.report and given.runs is not None and not given.runs.is_dir():
        raise UserError(f"--runs {given.runs}: no such folder")
    top = given.runs or TOP
    check_words(given.words)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    if given.calibrate:
        return calibrate(top.with_name(top.name + "-calibration"), given.words, console)
    names = experiments(given.experiments)
    runs = plan(names, top, given.words)
    if given.report:
        return report(runs, given.output)
    study_sample.write_once(runs[0].config.data.path)
    code = run_all(runs, console)
    if code == EXIT_DONE:
        return report(runs, given.output)
    print(f"go on with: make study; what is done so far: make study ARGS=--report, into {given.output}", flush=True)
    return code


def check_words(words: Sequence[str]) -> None:
    """Raise UserError for an override of what the study sets."""
    for word in words:
        key = word.lstrip("+~").partition("=")[0]
        if key in OWN:
            raise UserError(f"{word}: make study sets that itself; it takes --experiments, and other keys")


def experiments(asked: str | None) -> list[str]:
    """The experiments of the study, in the order of the tables; a number is one of Mikami et al., as of EXP=.

    Raises UserError for one that conf/exp/ lacks.
    """
    there = [name for name in compose.choices_of("exp") if name != scaling.EXPERIMENT]
    names = there if asked is None else [name.strip() for name in words_of_make.experiments(asked).split(",")]
    for name in names:
        if name not in there:
            raise UserError(f"--experiments: conf/exp/ has no {name}; it has {', '.join(there)}")
    return in_order(names, read())


def plan(names: Sequence[str], top: Path, words: Sequence[str]) -> list[Planned]:
    """All runs: every experiment with the first seed, then with the next, so that pairs come early."""
    runs = []
    for name in names:
        seeds = PAIRED_SEEDS if name in PAIRED else OTHER_SEEDS
        runs += with_seeds(name, seeds, words, {seed: top / f"{name}-seed-{seed}" for seed in seeds})
    return sorted(runs, key=lambda one: one.config.seed)


def report(runs: Sequence[Planned], output: Path) -> int:
    """Write the results of the runs that are done, and say how many are not."""
    from jobs.study_results import write  # here: matplotlib takes as long as all the rest

    done = [one for one in runs if one.is_done()]
    if not done:
        raise UserError("none of the study's runs is done yet; make study runs them")
    for path in write([one.folder for one in done], len(runs), output):
        print(path)
    if len(done) < len(runs):
        print(f"{len(done)} of {counted(len(runs), 'run')} are done; make study runs the others")
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
