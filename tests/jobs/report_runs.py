"""A folder with runs of every kind that a report may meet: finished, running, failed, foreign, damaged, hostile."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs.compose import compose
from jobs.render import STAND_INS
from pipeline.config import Plan, load, make_plan, save
from pipeline.run_folder import RunFolder
from tests.jobs.runs import add_attempt

MARKUP = "<img src=x onerror=alert(1)>|a"
"""A name that would be markup in HTML, and a cell's end in Markdown."""


def add_run(path: Path, words: Sequence[str], *, experiment: str | None = None) -> tuple[RunFolder, Plan]:
    """A run folder of a local run or, with site=, of a cluster's; nothing has run in it."""
    folder = RunFolder.create(path)
    config = compose(words, stand_ins=STAND_INS)
    plan = make_plan(config)
    config.experiment = experiment or config.experiment
    save(config, folder.config)
    folder.overrides.write_text("[]\n")
    return folder, plan


def finish(folder: RunFolder, plan: Plan, **changed: Any) -> None:
    """An attempt that ended well: result.json, with `changed` in it, and curves."""
    add_attempt(folder, "4711", 0)
    whole = {
        "complete": True, "updates": plan.updates, "updates_by_stage": plan.updates_by_stage(), "top1": 96.0,
        "validation_images": 1000, "loop_time_s": 100.0, "wall_time_s": 110.0, "images_per_s": 2000.0,
        "workers": plan.workers, "experiment": load(folder.config).experiment,
    }  # fmt: skip
    folder.result.write_text(json.dumps(whole | changed))
    add_curves(folder, plan)


def add_curves(folder: RunFolder, plan: Plan, *, start: float = 90.0) -> None:
    """Two updates an epoch, of 100 images each: errors `start` less the epoch, one above and one below by 5 points."""
    lines: list[Mapping[str, Any]] = []
    for epoch in range(plan.epochs):
        error = start - epoch
        for at, off in ((0.0, 5.0), (0.5, -5.0)):
            lines.append({"update": len(lines) + 1, "epoch": epoch + at, "training_error": error + off, "batch": 100})
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    validations = [{"update": 2 * epoch, "epoch": float(epoch), "top1": 50.0 + epoch / 2} for epoch in (30, 60, 90)]
    folder.validations.write_text("".join(json.dumps(line) + "\n" for line in validations))


def every_kind(top: Path) -> None:
    """Fill `top`, which is to be a folder of runs."""
    full = ("scale=null", "site.wall_time=1:00:00")
    finish(*add_run(top / "sony", ["exp=exp2", "site=abci", *full]),
           top1=75.10, loop_time_s=230.0, validation_images=50_000)  # fmt: skip
    finish(*add_run(top / "small", ["exp=exp5", "site=slurm", "nodes=16", *full]),
           top1=74.9, loop_time_s=4000.0, validation_images=50_000)  # fmt: skip
    for seed, top1 in ((0, 96.0), (1, 97.0)):
        finish(*add_run(top / f"reference-{seed}", ["exp=reference", f"seed={seed}"]), top1=top1)
    finish(*add_run(top / "model", ["exp=exp5"]), top1=96.25)
    folder, _ = add_run(top / "failed", ["exp=exp1"])
    (add_attempt(folder, "4711", 1) / "errors").mkdir()
    (folder.attempts / "0" / "errors" / "rank-0").write_text("data.path /x: no such folder\n")
    add_run(top / "running", ["exp=exp6"])  # a test holds its lock
    add_attempt(RunFolder(top / "running"), "4711")
    finish(*add_run(top / MARKUP.replace("/", ""), ["exp=exp5"], experiment=MARKUP))
    finish(*add_run(top / "other-lr", ["exp=exp3", "optim.lr=2.0"]))
    finish(*add_run(top / "short", ["exp=exp4"]), complete=False, updates=100)
    damaged = {
        "half": '{"complete": tr',
        "not-a-number": None,
        "lacking": '{"complete": true}',
        "endless": f'{{"complete": true, "updates": 1{"0" * 400}, "top1": 96.0, "images_per_s": 1.0}}',
    }
    for name, content in damaged.items():
        folder, plan = add_run(top / name, ["exp=exp4"])
        finish(folder, plan, top1=float("nan"))
        if content is not None:
            folder.result.write_text(content)
    for workers, speed in ((1, 1000.0), (2, 1600.0)):
        grid = ["grid.vertical=1", f"grid.horizontal={workers}"]
        recipe = [f"recipe.workers={544 * workers}", "recipe.grid.vertical=544", f"recipe.grid.horizontal={workers}"]
        words = [*grid, *recipe, f"workers={workers}"]
        finish(*add_run(top / f"scaling-{workers}", ["exp=scaling", *words]), top1=None, images_per_s=speed)
    (top / "notes").mkdir()
    (top / "notes" / "todo.txt").write_text("buy milk\n")
    (top / "no-yaml").mkdir()
    (top / "no-yaml" / "config.yaml").write_text("seed: [1\n")
    (top / "no-yaml" / "overrides.yaml").write_text("[]\n")
