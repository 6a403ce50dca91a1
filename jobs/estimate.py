"""What would this run take on that cluster? `python -m jobs.estimate exp=exp2 site=abci [WORD …]`. Torch-free.

Words are overrides, as everywhere, and three of its own: format=json, explain=true, plot=FILE (or --plot FILE).
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from jobs import compose
from jobs.command_line import Parser, run
from jobs.render import STAND_INS
from pipeline.errors import UserError
from pipeline.estimate.prediction import Prediction, predict
from pipeline.report.estimate_formulas import formulas
from pipeline.report.estimate_tables import as_json, print_prediction
from pipeline.run_folder import EXIT_DONE, RunFolder

COLUMNS = 120
OWN = ("format", "explain", "plot")
PICTURES = (".png", ".svg")


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make estimate", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="overrides, format=json, explain=true")
    parser.add_argument("--plot", metavar="FILE", help="draw efficiency over workers into this .png or .svg")
    parser.add_argument("--run", metavar="RUN", help="a run folder of this size: what it took is set beside")
    given = parser.parse_args(arguments)
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
    console = Console(highlight=False, width=None if sys.stdout.isatty() else COLUMNS)
    with console.capture() as captured:  # rich would end the program by itself where a reader, as head, has gone
        print_prediction(console, found)
        for line in formulas(found) if options.explain else ():
            console.print(line, markup=False, soft_wrap=True)
    print(captured.get(), end="")
    return EXIT_DONE


def measured_s(found: Prediction, folder: RunFolder) -> float:
    """What the loop of a run took. Raises UserError for a run without a result, or of another size."""
    result = folder.read_result()
    if result is None:
        raise UserError(f"{folder} has no result yet, so there is nothing to compare with")
    asked = found.config.experiment, found.model.plan.workers, sum(one.updates for one in found.run.stages)
    there = result["experiment"], result["workers"], result["updates"]
    if asked != there:
        names = "{} of {:,} workers and {:,} updates"
        raise UserError(f"{folder} is {names.format(*there)}, and the estimate is of {names.format(*asked)}")
    return float(result["loop_time_s"])


@dataclass(frozen=True)
class Options:
    """The command's own words."""

    as_json: bool
    explain: bool
    plot: Path | None


def take_own(words: Sequence[str], plot: str | None) -> tuple[Options, list[str]]:
    """The command's own words, and the others. Raises UserError for a value that they do not have."""
    own = dict(pair for pair in (word.split("=", 1) for word in words if "=" in word) if pair[0] in OWN)
    others = [word for word in words if word.partition("=")[0] not in OWN]
    shape, explain = own.get("format", "text"), own.get("explain", "false").lower()
    if shape not in ("text", "json"):
        raise UserError(f"format={shape}: there are text and json")
    if explain not in ("true", "false"):
        raise UserError(f"explain={explain}: true or false")
    picture = plot or own.get("plot")
    if picture is not None and Path(picture).suffix not in PICTURES:
        raise UserError(f"--plot {picture}: a file ending in {' or '.join(PICTURES)}")
    return Options(shape == "json", explain == "true", Path(picture) if picture is not None else None), others


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
