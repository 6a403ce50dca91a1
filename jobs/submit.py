"""The one composing entry: `python -m jobs.submit exp=exp5 [OVERRIDE …]`, or `-m` for a Hydra multirun.

An ordinary @hydra.main application, so that multirun and sweepers work as everywhere. It composes and checks conf/,
makes the run folder, writes the script and, at site=local, runs it; at a cluster's site it is given to the scheduler,
when all runs of a multirun are made, and this program ends. Exit code: the run's own; of a multirun the worst.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from jobs import batch, compose, local, prepare
from jobs.command_line import take_interrupts
from jobs.job import Job
from pipeline.errors import UserError
from pipeline.report.console import print_comparison
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED, EXIT_SAVED, RunFolder

EXIT_INTERRUPTED = 130
"""As shells have it for a program that Ctrl-C ended."""

SEVERITY = {EXIT_DONE: 0, EXIT_SAVED: 1}
"""Of the codes of a multirun the worst is returned; any other code is worse than these."""


@dataclass(frozen=True)
class Done:
    """What became of one run of the application."""

    folder: RunFolder | None
    """None where the configuration was refused before there was a run folder."""
    code: int


def main() -> int:
    """Run the application; returns its exit code."""
    os.umask(0o077)  # a run folder is its owner's
    take_interrupts()
    compose.register()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # let errors through to us; otherwise Hydra prints and exits by itself
    done: list[Done] = []
    made: list[Job] = []

    @hydra.main(version_base="1.3", config_path=str(compose.CONF), config_name="config")
    def task(tree: DictConfig) -> int:
        if done and done[-1].code == EXIT_SAVED:  # whoever stops a run of a sweep does not want those after it
            return EXIT_SAVED
        done.append(run(tree, list(HydraConfig.get().overrides.task), made))
        return done[-1].code

    code = guarded(task)
    if code is not None:
        return code
    if made:
        done += submit(made)
    elif len(done) > 1:
        rows = [(str(one.folder), one.folder.read_result()) for one in done if one.folder]
        print_comparison(Console(highlight=False, width=None if sys.stdout.isatty() else 160), rows)
    return max((one.code for one in done), key=lambda code: SEVERITY.get(code, 2), default=EXIT_DONE)


def guarded(task: Callable[[], object]) -> int | None:
    """Let Hydra run `task`; the exit code of what it or the user broke off, told in one line; None where it ended."""
    hydras = ("hydra.run", "hydra.job", "hydra.out")
    refused = next((word for word in sys.argv[1:] if word.lstrip("+~").startswith(hydras)), "")
    if refused:
        return fail(f"{refused}: Hydra's own folders are not used; a run's folder is run.dir")
    try:
        compose.check_words(sys.argv[1:])
        task()
    except UserError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone; the run itself is done
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except compose.REFUSALS as error:  # some of Hydra's are OSErrors too
        return fail(compose.explain(error, sys.argv[1:]))
    except OSError as error:
        return fail(f"{error.filename or 'a file'} cannot be made or written: {error.strerror}; name another folder")
    return None


def run(tree: DictConfig, words: Sequence[str], made: list[Job]) -> Done:
    """One run of the application: a new run folder, or an old one to go on with.

    At a cluster's site its job is only made, and added to `made`.

    A mistake is printed here and becomes a code, so that a sweep goes on; raised, Hydra would add lines of its own.
    """
    folder = None
    try:
        resumed = OmegaConf.select(tree, "run.resume")
        if resumed:
            folder = RunFolder.open(str(resumed))
            with prepare.going_on(str(resumed), words):
                code = here(folder)
        else:
            config = compose.to_config(tree)
            if config.site.scheduler != "local":
                made.append(batch.make(config, words, compose.REPOSITORY))
                return Done(made[-1].folder, EXIT_DONE)
            folder = prepare.create(config, words)
            code = here(folder)
    except UserError as error:
        return Done(folder, fail(f"{whose(words)}{error}"))
    except compose.REFUSALS as error:
        return Done(folder, fail(whose(words) + compose.explain(error, words)))
    except OSError as error:
        return Done(folder, fail(f"{whose(words)}{error.filename or folder} cannot be written: {error.strerror}"))
    return Done(folder, code)


def here(folder: RunFolder) -> int:
    """Run what is left of a run on this machine; returns its code."""
    result = folder.read_result()
    if result and result["complete"]:
        print(f"{folder}: nothing left to do, all {result['updates']:,} updates are done", flush=True)
        return EXIT_DONE
    code = local.run(folder)
    print(f"run folder: {folder}", flush=True)
    return code


def whose(words: Sequence[str]) -> str:
    """Of a multirun, which run a line is about: the words that make it; nothing for a single run."""
    return f"{' '.join(words)}: " if HydraConfig.get().mode == RunMode.MULTIRUN else ""


def submit(made: Sequence[Job]) -> list[Done]:
    """Give the jobs to their scheduler, which tells of each."""
    try:
        batch.submit(made, made[0].folder.path.parent)
    except UserError as error:
        return [Done(None, fail(str(error)))]
    except KeyboardInterrupt:
        return [Done(None, EXIT_INTERRUPTED)]
    return []


def fail(line: str) -> int:
    """Say in one line what was wrong."""
    print(f"error: {line}", file=sys.stderr, flush=True)
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
