"""The study's results for docs/results/: table, summary, curves, figure; machine, date and versions. Torch-free."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobs.report import gather_runs
from pipeline.config import load
from pipeline.report import figure3
from pipeline.report.figure3 import Panel
from pipeline.report.files import means
from pipeline.report.markdown import page
from pipeline.report.material import Material
from pipeline.report.study import curves_csv, results, summary, table
from pipeline.report.verdict import against
from pipeline.run_folder import RunFolder, write_atomically
from pipeline.wording import counted, printable

PACKAGES = ("torch", "torchvision", "nvidia-dali-cuda130", "openmpi", "numpy")
"""Whose versions are told."""

TITLE = "The study: scale models of all experiments"

NOTE = (
    "Top-1 is of the images that no run trains on, a mean over seeds; ± is the standard deviation over them. "
    "Differences to the reference are of pairs with the same seed, intervals Student's at 95 %."
)


def write(folders: Sequence[RunFolder], planned: int, output: Path) -> list[Path]:
    """Write the results of finished runs into `output`; returns the paths. planned: runs of the whole study."""
    material = gather_runs(folders, sorted({load(folder.config).experiment for folder in folders}))
    titles = {recipe.experiment: recipe.title for recipe in material.recipes}
    all_means = means(material.scale_models, material.curves)
    curves = {name: all_means[name] for name in titles if name in all_means}
    found = results(material.recipes, material.scale_models)
    about = describe(folders, planned, sum(len(one.top1) for one in found))
    left_out = dict([*of_no_use(material), *material.left_out])
    panels = figure3.panels(curves, titles)
    output.mkdir(parents=True, exist_ok=True)
    texts = {
        "study.md": page(
            TITLE,
            [*in_words(about), *(f"Left out: {run}: {why}" for run, why in left_out.items())],
            [table(found, NOTE)],
            [("study.svg", figure_in_words(panels))],
        ),
        "study.json": json.dumps(summary(found, about), indent=1) + "\n",
        "curves.csv": curves_csv(curves),
    }
    for name, text in texts.items():
        write_atomically(output / name, text)
    drawn = figure3.save(figure3.draw(panels), output / "study") if panels else []
    for run, why in left_out.items():
        print(f"left out: {printable(run)}: {printable(why)}", flush=True)
    return [*(output / name for name in texts), *drawn]


def of_no_use(material: Material) -> list[tuple[str, str]]:
    """(folder, why) of finished runs that stand in no row."""
    used = {record.folder for group in material.scale_models.values() for record in group.records}
    unlike = "unlike the other runs of its experiment, which are more"
    return [(one.folder, against(one) or unlike) for one in material.records if one.folder not in used] + [
        (one.folder, "it was not validated")
        for one in material.records
        if one.folder in used and one.outcome is not None and one.outcome.top1 is None
    ]


def describe(folders: Sequence[RunFolder], planned: int, counting: int) -> dict[str, Any]:
    """Machine, date and versions, of the run that ended last. planned: runs of the study. counting: in its table."""
    newest = max(folders, key=lambda folder: folder.result.stat().st_mtime)
    environment = _lines(newest)
    day = datetime.fromtimestamp(newest.result.stat().st_mtime, UTC).date()
    versions = dict(line.split("==", 1) for line in environment if "==" in line)
    said = dict(line.split(" ", 1) for line in environment if " " in line and "==" not in line)
    return {
        "date": day.isoformat(),
        "machine": said.get("processor", "not known"),
        "commit": said.get("commit", "unknown"),
        "runs": counting,
        "runs_planned": planned,
        "versions": {"python": said.get("python", "not known")}
        | {name: versions[name] for name in PACKAGES if name in versions},
    }


def _lines(folder: RunFolder) -> list[str]:
    try:
        return folder.environment.read_text(errors="replace").splitlines()
    except OSError:
        return []


def in_words(about: Mapping[str, Any]) -> list[str]:
    """What stands above the table."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return [
        "Scale models on small images: they say how the schedules compare here, and nothing of ImageNet. Made by "
        f"make study: {about['runs']} of {counted(about['runs_planned'], 'run')}.",
        f"{about['date']}, {about['machine']}; commit {about['commit']}; {versions}.",
    ]


def figure_in_words(panels: Sequence[Panel]) -> str:
    return "Training error (lines) and validation error (rings) by epoch; " + ". ".join(
        one.in_words() for one in panels
    )
