"""Go on with a run of a cluster by a new submission: `python -m jobs.resubmit RUN [OVERRIDE …]`. Torch-free.

For a run that was saved, lost, failed or cancelled, or that stopped where it was asked to: it goes on from its newest
checkpoint. Words are put over those it was made with, and refused where they would make another run of it. A run that
waits or runs, or of which nobody can say, is refused: two jobs would take turns at one folder.
"""

import sys
from collections.abc import Sequence

from jobs import batch, compose, prepare
from jobs.command_line import Parser, run
from jobs.job import Job, make_job
from jobs.scheduler import find
from jobs.state import State, find_out
from pipeline.config import load
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, RunFolder


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make resubmit RUN=…", description=__doc__)
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("words", nargs="*", metavar="OVERRIDE", help="as site.wall_time=2:00:00")
    options = parser.parse_args(arguments)
    folder = RunFolder.open(options.run)
    with folder.submitting(), prepare.put_back_on_refusal(folder):
        job = make(options.run, options.words)
        batch.submit([job], job.folder.path.parent)
    return EXIT_DONE


def make(path: str, words: Sequence[str]) -> Job:
    """The job that goes on with a run. Raises UserError, and changes nothing, where it cannot or must not."""
    folder = RunFolder.open(path)
    site = load(folder.config).site
    if site.scheduler == "local":
        raise UserError(f"{folder} is a run of this machine; go on with: make train RESUME={folder}")
    result = folder.read_result()
    if result and result["complete"]:
        raise UserError(f"{folder}: nothing left to do, all {result['updates']:,} updates are done")
    _check_state(folder, find_out(folder, find(site.scheduler).ask))
    _, config, merged = prepare.merge(path, words)
    if config.site.scheduler == "local":
        raise UserError(f"site={config.site.name} is this machine; make resubmit goes on with a run on a cluster")
    batch.check_submittable(config)
    prepare.write_again(folder, config, merged)
    return make_job(config, folder, compose.REPOSITORY)


def _check_state(folder: RunFolder, state: State) -> None:
    if state.word in ("waiting", "running"):
        why = f" ({state.why})" if state.why else ""
        raise UserError(f"{folder} is {state.word} as job {state.job_id}{why}; make cancel RUN={folder} would end it")
    if state.word == "unknown":
        raise UserError(f"{folder}: nobody can say whether job {state.job_id} still runs: {state.why}")
    if state.word == "not submitted":
        raise UserError(f"{folder} was never submitted, so there is nothing to go on with; take make submit")


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
