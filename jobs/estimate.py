"""What would this run take on that cluster? `python -m jobs.estimate exp=exp2 site=abci [WORD …]`. Torch-free.

Words are overrides, as everywhere, and three of its own: format=json, explain=true, plot=FILE (or --plot FILE).
"""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from jobs import compose
from jobs.command_line import Parser, run
from jobs.render import STAND_INS
from pipeline.config.paths import check_written_out
from pipeline.errors import UserError
from pipeline.estimate.prediction import Prediction, predict
from pipeline.report.estimate_formulas import formulas
from pipeline.report.estimate_tables import as_json, print_prediction
from pipeline.run_folder import EXIT_DONE, RunFolder

COLUMNS = 120
FEWEST_COLUMNS = 80
"""On a narrower terminal its own lines break: a table that is squeezed further loses its figures."""
OWN = ("format", "explain", "plot")
PICTURES = (".png", ".svg")


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make estimate", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="overrides, format=json, explain=true")
    parser.add_argument("--plot", metavar="FILE", help="draw efficiency over workers into this .png or .svg")
    parser.add_argument("--run", metavar="RUN", help="a run folder of this size: what it took is set beside")
    given = parser.parse_intermixed_args(arguments)
    options, words = take_own(given.words, given.plot)
    found = predict(compose.compose(words, stand_ins=STAND_INS))
    if given.run is not None:
        found = replace(found, measured_s=measured_s(found, RunFolder.open(given.run)))
    if options.plot is not None:
        from pipeline.report.estimate_plot import draw, save  # here: matplotlib takes as long as all the rest

        save(draw(found), options.plot)
    if options.as_json:
        print(json.dumps(as_json(found) | ({"formulas": list(formulas(found))} if options.explain else {}), indent=1))
        return EXIT_DONE
    console = console_of(sys.stdout.isatty())
    with console.capture() as captured:  # rich would end the program by itself where a reader, as head, has gone
        print_prediction(console, found)
        for line in formulas(found) if options.explain else ():
            console.print(line, soft_wrap=True)
    print(captured.get(), end="")
    if options.plot is not None:
        print(f"{options.plot}: efficiency over workers")
    return EXIT_DONE


def console_of(is_terminal: bool) -> Console:
    """What tables are printed on. Names are a user's own, so nothing in them is rich's markup."""
    console = Console(highlight=False, markup=False, width=None if is_terminal else COLUMNS)
    console.width = max(console.width, FEWEST_COLUMNS)
    return console


def measured_s(found: Prediction, folder: RunFolder) -> float:
    """What the loop of a run took. Raises UserError for a run without a result, and for one that is another."""
    result = folder.read_result()
    if result is None:
        raise UserError(f"{folder} has no result yet, so there is nothing to compare with")
    config, plan = found.config, found.model.plan
    asked = {
        "experiment": config.experiment,
        "scale_model": config.scale is not None,
        "workers": plan.workers,
        "grid": {"vertical": plan.grid.vertical, "horizontal": plan.grid.horizontal},
        "all_reduce": found.model.all_reduce.name,
        "updates": sum(one.updates for one in found.run.stages),
    }
    for key, value in asked.items():
        if result.get(key) != value:
            raise UserError(
                f"{folder} is another run: its {key.replace('_', ' ')} is {in_words(result.get(key))}, "
                f"and the estimate's is {in_words(value)}"
            )
    time_s = result.get("loop_time_s")
    if not isinstance(time_s, int | float) or not math.isfinite(time_s):
        raise UserError(f"{folder.result} has no loop_time_s, so there is nothing to compare with")
    return float(time_s)


def in_words(value: object) -> str:
    """A value of result.json: `34x64`, `2,176`, `no`."""
    if isinstance(value, dict):
        return f"{value.get('vertical')}x{value.get('horizontal')}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not told" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Options:
    """The command's own words."""

    as_json: bool
    explain: bool
    plot: Path | None


def take_own(words: Sequence[str], plot: str | None) -> tuple[Options, list[str]]:
    """The command's own words, and the others. Raises UserError for a value that they do not have."""
    pairs = [word.partition("=") for word in words]
    own = {name: value for name, equals, value in pairs if equals and name in OWN}
    others = [word for word, (name, equals, _) in zip(words, pairs, strict=True) if not (equals and name in OWN)]
    shape, explain = own.get("format", "text"), own.get("explain", "false").lower()
    if shape not in ("text", "json"):
        raise UserError(f"format={shape}: there are text and json")
    if explain not in ("true", "false"):
        raise UserError(f"explain={explain}: true or false")
    picture = plot or own.get("plot")
    if picture is not None:
        check_written_out("plot", picture)
    if picture is not None and Path(picture).suffix not in PICTURES:
        raise UserError(f"--plot {picture}: a file ending in {' or '.join(PICTURES)}")
    return Options(shape == "json", explain == "true", Path(picture) if picture is not None else None), others


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
