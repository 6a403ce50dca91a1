"""Every reader of a file that may come from elsewhere, with a good file to begin with.

Of a target, `read` gives an answer or raises UserError for whatever its file holds; anything else is a fault. Used with
hypothesis (test_targets.py) and, where it is installed, with atheris (`python -m tests.fuzzing.with_atheris`).
"""

import json
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jobs.compose import compose
from pipeline import checkpoint, mlperf
from pipeline.config import load, make_plan, save
from pipeline.config.stored import read_yaml
from pipeline.data.epochs import Epochs
from pipeline.data.prepare.archive import Archive
from pipeline.data.shards import read_index
from pipeline.data.staging import stage
from pipeline.evaluate import OneProcess
from pipeline.metrics import MetricsFile, Totals, earlier_totals, newest_lines, save_totals
from pipeline.models import build
from pipeline.optim import build as optimisers
from pipeline.run_folder import RunFolder
from pipeline.trainer import _read_name
from tests.pipeline.data.images import jpeg, write_images


@dataclass(frozen=True)
class Target:
    """A file, and what reads it."""

    path: Path
    read: Callable[[], object]


def targets(folder: Path) -> dict[str, Target]:
    """All of them, by name, with their files in `folder`."""
    run = RunFolder.create(folder / "run")
    return _of_data(folder / "data") | _of_runs(run) | _of_checkpoints(run) | _of_archives(folder / "a.tar")


def _of_data(shards: Path) -> dict[str, Target]:
    images = [jpeg(number) for number in range(6)]
    write_images(shards, train=images, validation=images[:3])
    memory = shards.parent / "memory"
    memory.mkdir()
    index = read_index(shards, "train")
    return {
        "manifest": Target(shards / "manifest.json", lambda: read_index(shards, "train")),
        "index": Target(shards / "train-000000.tsv", lambda: read_index(shards, "train")),
        "shard": Target(shards / "train-000000.tar", lambda: stage([index], OneProcess(), folder=memory)),
    }


def _of_runs(run: RunFolder) -> dict[str, Target]:
    save(compose(["exp=exp5"]), run.config)
    run.overrides.write_text("- exp=exp5\n- optim.lr=2.0\n")
    run.result.write_text(json.dumps({"complete": True, "updates": 2010, "top1": 96.8, "images_per_s": 1700.0}))
    run.metrics.write_text("".join(json.dumps({"update": update, "loss": 2.0}) + "\n" for update in range(1, 9)))
    run.all_reduce.write_text(json.dumps({"name": "torus"}))
    record = {"key": "epoch_start", "metadata": {"step_num": 3}}
    run.mlperf_log.write_text((mlperf.TOKEN + json.dumps(record) + "\n") * 3)
    attempt = run.attempts / "0"
    attempt.mkdir()
    save_totals(attempt, Totals(updates=3))
    run.note_submission("slurm", ["7", "8"])
    return {
        "config.yaml": Target(run.config, lambda: make_plan(load(run.config))),
        "overrides.yaml": Target(run.overrides, lambda: read_yaml(run.overrides)),
        "result.json": Target(run.result, run.read_result),
        "metrics.jsonl": Target(run.metrics, lambda: _metrics(run.metrics)),
        "allreduce.json": Target(run.all_reduce, lambda: _read_name(run.all_reduce)),
        "mlperf.log": Target(run.mlperf_log, lambda: mlperf._read(run.mlperf_log, 9)),
        "totals.json": Target(attempt / "totals.json", lambda: earlier_totals(run, None)),
        "submissions.jsonl": Target(run.submissions, run.job_ids),
    }


def _metrics(path: Path) -> object:
    """As status reads it, and as a run that goes on does."""
    found = newest_lines(path)
    MetricsFile(path, 8).close()
    return found


def _of_checkpoints(run: RunFolder) -> dict[str, Target]:
    config = compose(["exp=exp5"])
    epochs = Epochs(0, make_plan(config))
    model = build(config.model)
    optimizer = optimisers.build(config.optim, model)
    state = checkpoint.State(
        10, model.state_dict(), optimizer.state_dict(), {}, None, checkpoint.describe(epochs), {"seed": "0"}
    )
    path = checkpoint.save(run, state, keep=2)

    def go_on() -> object:
        """As a run that goes on does; the model and the optimiser are then of no use, and made anew."""
        found = checkpoint.load(run, 10, epochs, {"seed": "0"})
        with checkpoint.fitting(path):
            fresh = build(config.model)
            fresh.load_state_dict(found.model)
            optimisers.build(config.optim, fresh).load_state_dict(found.optimizer)
        return found

    with zipfile.ZipFile(path) as archive:
        members = {member.filename: archive.read(member) for member in archive.infolist()}
    (pickle,) = [name for name in members if name.endswith("data.pkl")]
    changed = run.path / "data.pkl"
    changed.write_bytes(members[pickle])

    def go_on_with_pickle() -> object:
        """With a pickle of its own, in an archive that is whole: chance alone would seldom come so far."""
        good = path.read_bytes()
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in (members | {pickle: changed.read_bytes()}).items():
                archive.writestr(name, content)
        try:
            return go_on()
        finally:
            path.write_bytes(good)

    return {"checkpoint": Target(path, go_on), "pickle of a checkpoint": Target(changed, go_on_with_pickle)}


def _of_archives(path: Path) -> dict[str, Target]:
    folder = path.with_suffix("")
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(jpeg(number))
    with tarfile.open(path, "w") as tar:
        tar.add(folder, "images")
    return {"archive": Target(path, Archive(path, shown=path.name).members)}
