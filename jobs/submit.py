"""The one composing entry: `python -m jobs.submit exp=exp5 [OVERRIDE …]`, or `-m` for a Hydra multirun.

An ordinary @hydra.main application, so that multirun and sweepers work as everywhere. It composes and checks conf/,
makes the run folder, writes the script and, at site=local, runs it. Exit code: the run's own; of a multirun the worst.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from jobs import compose, environment, local
from pipeline.config import Config, check_data, load, make_plan, save
from pipeline.config.schema import keys
from pipeline.config.stored import read_yaml
from pipeline.errors import UserError
from pipeline.report.console import print_comparison
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED, EXIT_SAVED, RunFolder

RESUMABLE = ("run.", "data.path", "data.prefetch_updates", "data.decoder_threads", "data.on_bad_sample")
"""Keys that may differ when a run is gone on with: they change where and how long, not what. data.on_bad_sample too: a
run that a bad sample ended can go on without it, as it would have from the start."""

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
    compose.register()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # let errors through to us; otherwise Hydra prints and exits by itself
    done: list[Done] = []

    @hydra.main(version_base="1.3", config_path=str(compose.CONF), config_name="config")
    def task(tree: DictConfig) -> int:
        if done and done[-1].code == EXIT_SAVED:  # whoever stops a run of a sweep does not want those after it
            return EXIT_SAVED
        done.append(run(tree, list(HydraConfig.get().overrides.task)))
        return done[-1].code

    refused = next(
        (word for word in sys.argv[1:] if word.lstrip("+~").startswith(("hydra.run", "hydra.job", "hydra.out"))), ""
    )
    if refused:
        return fail(f"{refused}: Hydra's own folders are not used; a run's folder is run.dir")
    try:
        compose.check_words(sys.argv[1:])
        task()
    except UserError as error:
        return fail(str(error))
    except BrokenPipeError:  # whoever read our output has gone; the run itself is done
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except compose.REFUSALS as error:
        return fail(compose.explain(error, sys.argv[1:]))
    if len(done) > 1:
        rows = [(str(one.folder), one.folder.read_result()) for one in done if one.folder]
        print_comparison(Console(highlight=False, width=None if sys.stdout.isatty() else 160), rows)
    return max((one.code for one in done), key=lambda code: SEVERITY.get(code, 2), default=EXIT_DONE)


def run(tree: DictConfig, words: Sequence[str]) -> Done:
    """One run of the application: a new run folder, or an old one to go on with.

    A mistake is printed here and becomes a code, so that a sweep goes on; raised, Hydra would add lines of its own.
    """
    folder = None
    try:
        resumed = OmegaConf.select(tree, "run.resume")
        if resumed:
            folder, config = resume(str(resumed), words)
        else:
            config = compose.to_config(tree)
            folder = create(config, words)
        result = folder.read_result()
        if result and result["complete"]:
            print(f"{folder}: nothing left to do, all {result['updates']:,} updates are done", flush=True)
            return Done(folder, EXIT_DONE)
        code = local.run(folder)
    except UserError as error:
        return Done(folder, fail(str(error)))
    except compose.REFUSALS as error:
        return Done(folder, fail(compose.explain(error, words)))
    print(f"run folder: {folder}", flush=True)
    return Done(folder, code)


def create(config: Config, words: Sequence[str]) -> RunFolder:
    """A new run folder for `config`, with everything that its job needs."""
    locate_data(config)
    named = any(word.lstrip("+").startswith("run.dir=") for word in words)
    folder = RunFolder.create(config.run.dir, rename=not named)
    write(folder, config, words)
    return folder


def resume(path: str, words: Sequence[str]) -> tuple[RunFolder, Config]:
    """An old run folder to go on with; `words` are put over those it was made with.

    Raises UserError where that would make another run of it.
    """
    folder = RunFolder.open(path)
    if folder.is_running():
        raise UserError(f"{folder} is running; wait for its end, or stop it before it goes on elsewhere")
    old = load(folder.config)
    before = [str(word) for word in read_yaml(folder.overrides)]
    forgotten = ("run.resume", "run.dir", "run.stop_after_epochs", "run.stop_after_updates")
    merged = {_key(word): word for word in before if _key(word) not in forgotten}
    merged |= {_key(word): word for word in words if _key(word) not in ("run.resume", "run.dir")}
    config = compose.compose([*merged.values(), f"run.dir={json.dumps(old.run.dir)}"])
    for key, (was, is_now) in differences(old, config).items():
        if not key.startswith(RESUMABLE):
            raise UserError(
                f"{key} was {_shown(was)} in {folder} and is {_shown(is_now)} now; a run goes on as it began, "
                "so start a new one"
            )
    locate_data(config)
    write(folder, config, list(merged.values()))
    return folder, config


def locate_data(config: Config) -> None:
    """Make data.path absolute, from the repository where ranks start, and check that there are shards."""
    config.data.path = str(compose.REPOSITORY / config.data.path)
    check_data(Path(config.data.path))


def write(folder: RunFolder, config: Config, words: Sequence[str]) -> None:
    """Put the configuration, the words it came from, the environment and the script into a run folder."""
    save(config, folder.config)
    OmegaConf.save(OmegaConf.create(list(words)), folder.overrides)
    folder.environment.write_text(environment.describe(compose.REPOSITORY))
    folder.script.write_text(local.script(config, make_plan(config), folder, compose.REPOSITORY))
    folder.script.chmod(0o700)


def differences(old: Config, new: Config) -> dict[str, tuple[object, object]]:
    """Dotted keys whose values differ, with both values."""
    trees = [OmegaConf.structured(old), OmegaConf.structured(new)]
    pairs = {key: [OmegaConf.select(tree, key) for tree in trees] for key in keys()}
    leaves = {key: pair for key, pair in pairs.items() if not isinstance(pair[0], DictConfig)}
    return {key: (was, is_now) for key, (was, is_now) in leaves.items() if was != is_now}


def fail(line: str) -> int:
    """Say in one line what was wrong."""
    print(f"error: {line}", file=sys.stderr, flush=True)
    return EXIT_FAILED


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")


if __name__ == "__main__":
    sys.exit(main())
