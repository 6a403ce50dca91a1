"""Run folders with all that a job needs: made anew, or an old one to go on with. Torch-free."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from omegaconf import OmegaConf

from jobs import compose, environment, local
from jobs.executor import script
from jobs.job import check_path, make_job, safe_name
from jobs.scheduler import find
from pipeline.config import Config, check_data, load, make_plan, save
from pipeline.config.differences import differences
from pipeline.config.identity import is_kept
from pipeline.config.secrets import held
from pipeline.config.stored import read_yaml
from pipeline.errors import UserError
from pipeline.ownership import check_own
from pipeline.run_folder import RunFolder


def create(config: Config, words: Sequence[str]) -> RunFolder:
    """A new run folder for `config`, with everything that its job needs."""
    locate_data(config)
    locate_image(config)
    named = any(word.lstrip("+").startswith("run.dir=") for word in words)
    if config.site.scheduler != "local":
        path = Path(config.run.dir)
        config.run.dir = str(path if named else path.with_name(safe_name(path.name)))
        check_path("run.dir", Path(config.run.dir).absolute())
    folder = RunFolder.create(config.run.dir, rename=not named)
    try:
        write(folder, config, words)
    except BaseException:  # refused, or Ctrl-C: half a run folder would only stand in the way of its name
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    return folder


def resume(path: str, words: Sequence[str]) -> tuple[RunFolder, Config]:
    """An old run folder to go on with on this machine; `words` are put over those it was made with.

    Raises UserError where that would make another run of it, and for a run of a cluster.
    """
    folder, config, merged = merge(path, words)
    if config.site.scheduler != "local":
        raise UserError(f"{folder} is a run of the site {config.site.name}; go on with: make resubmit RUN={folder}")
    write_again(folder, config, merged)
    return folder, config


@contextlib.contextmanager
def going_on(path: str, words: Sequence[str]) -> Iterator[RunFolder]:
    """`resume`, with the run held while the body runs it: the script's own lock comes a moment later, and another who
    goes on with it in between would write over its configuration. Raises UserError as that does."""
    folder = RunFolder.open(path)
    check_idle(folder)  # before the other lock: who runs for hours is not about to start
    with folder.submitting():
        resume(path, words)
        yield folder


def merge(path: str, words: Sequence[str]) -> tuple[RunFolder, Config, list[str]]:
    """What an old run folder would go on with: (folder, configuration, words it comes from). Changes nothing.

    Raises UserError where that would make another run of it.
    """
    folder = RunFolder.open(path)
    check_own(folder.path)  # its words become a script, and its script is run
    check_idle(folder)
    old = load(folder.config)
    before = [str(word) for word in read_yaml(folder.overrides)]
    forgotten = ("run.resume", "run.dir", "run.stop_after_epochs", "run.stop_after_updates")
    # A run that was regridded once keeps the word, since its older checkpoints are of other workers; asked is anew.
    regrid = any(_key(word) == "resume.regrid" for word in words)
    merged = {_key(word): word for word in before if _key(word) not in forgotten}
    merged |= {_key(word): word for word in words if _key(word) not in ("run.resume", "run.dir")}
    config = compose.compose([*merged.values(), f"run.dir={json.dumps(old.run.dir)}"])
    for key, (was, is_now) in differences(old, config).items():
        if is_kept(key, regrid=regrid and config.resume.regrid):
            mend = (
                "so start a new one" if is_kept(key, regrid=True) else "unless resume.regrid=true lets workers change"
            )
            raise UserError(
                f"{key} was {_shown(was)} in {folder} and is {_shown(is_now)} now; a run goes on as it began, {mend}"
            )
    locate_data(config)
    locate_image(config)
    return folder, config, list(merged.values())


def check_idle(folder: RunFolder) -> None:
    """Raise UserError for a run that runs on this machine; of a cluster's the scheduler knows."""
    if folder.is_running():
        raise UserError(f"{folder} is running; wait for its end, or stop it before it goes on elsewhere")


def write_again(folder: RunFolder, config: Config, words: Sequence[str]) -> None:
    """Make an old run folder ready to go on: it is not cancelled any more, and may be started again as often as new."""
    for mark in (folder.cancelled, folder.starts):
        mark.unlink(missing_ok=True)
    write(folder, config, words)


@contextlib.contextmanager
def put_back_on_refusal(folder: RunFolder) -> Iterator[None]:
    """Leave an old run folder as it was where going on with it is refused."""
    paths = (folder.config, folder.overrides, folder.environment, folder.script, folder.cancelled, folder.starts)
    before = {path: path.read_bytes() if path.exists() else None for path in paths}
    try:
        yield
    except UserError:
        for path, content in before.items():
            if content is None:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
        folder.script.chmod(0o700)
        raise


def locate_image(config: Config) -> None:
    """Make the path of an image absolute, and check that it is there; a name that is fetched is left as it is."""
    container = config.container
    if container.name not in ("apptainer", "singularity") or container.image is None or "://" in container.image:
        return
    container.image = str(compose.REPOSITORY / container.image)
    if not Path(container.image).exists():
        raise UserError(f"container.image {container.image}: no such image; IMAGE= names a SIF file or a folder")


def locate_data(config: Config) -> None:
    """Make data.path absolute, from the repository where ranks start, and check that there are shards.

    Synthetic images need none.
    """
    if config.data.synthetic:
        return
    config.data.path = str(compose.REPOSITORY / config.data.path)
    check_data(Path(config.data.path))


def write(folder: RunFolder, config: Config, words: Sequence[str]) -> None:
    """Put the configuration, the words it came from, the environment and the script into a run folder.

    Raises UserError where they would hold a secret of this shell.
    """
    check_secrets(config, words)
    save(config, folder.config)
    OmegaConf.save(OmegaConf.create(list(words)), folder.overrides)
    _add_environment(folder, environment.describe(compose.REPOSITORY))
    folder.script.write_text(job_script(config, folder))
    folder.script.chmod(0o700)


def check_secrets(config: Config, words: Sequence[str]) -> None:
    """Raise UserError where a configuration or the words it came from hold a secret of this shell."""
    values = "\n".join(str(value) for value in _scalars(OmegaConf.to_container(OmegaConf.structured(config))))
    if name := held("\n".join([values, *words]), os.environ):
        raise UserError(
            f"the configuration holds the value of {name}, which looks like a secret, and run folders are shown to "
            "others; keep it in a file that only you can read"
        )


def _scalars(tree: object) -> Iterator[object]:
    """Every key and value of nested dicts and lists, as it is and not as YAML would quote it."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from _scalars(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _scalars(value)
    else:
        yield tree


def _add_environment(folder: RunFolder, text: str) -> None:
    """What a run is started in; of one that goes on what earlier attempts were, and found on their nodes, stays."""
    before = folder.environment.read_text() if folder.environment.exists() else ""
    if text not in before:
        folder.environment.write_text("\n".join(filter(None, [before, text])))


def job_script(config: Config, folder: RunFolder) -> str:
    """The script of a run at its site."""
    if config.site.scheduler == "local":
        return local.script(config, make_plan(config), folder, compose.REPOSITORY)
    return script(make_job(config, folder, compose.REPOSITORY), find(config.site.scheduler))


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")
