"""The study's samples, one for each level of noise, as `data/study-noise-80`, written once. Torch-free."""

import re
import subprocess
import sys
from pathlib import Path

from jobs import compose
from pipeline.errors import UserError

TRAIN_PER_CLASS = 251
"""Digits of each class that may train: 2,510, since the largest scale model takes 2,502. The other 2,490 validate."""


def folder_of(level: int) -> str:
    """Where the sample of a level is, from the repository."""
    return f"data/study-noise-{level}"


def level_of(path: str) -> int:
    """The level of a sample's folder. Raises UserError for another folder."""
    found = re.fullmatch(re.escape(folder_of(0))[:-1] + r"(\d+)", path)
    if found is None:
        raise UserError(f"data.path {path}: conf/data/study.yaml must name {folder_of(80)}, or another number")
    return int(found[1])


def write_once(path: str) -> None:
    """Write the sample that `path` names, from the repository, where it is not there whole."""
    level = level_of(path)
    if (compose.REPOSITORY / path / "manifest.json").is_file():
        return
    print(f"writing {path}: 5,000 digits with noise of {level}, once", flush=True)
    words = ["--train-per-class", str(TRAIN_PER_CLASS), "--noise", str(level)]
    command = [sys.executable, "-m", "pipeline.data.sample", str(Path(path)), *words]
    done = subprocess.run(command, cwd=compose.REPOSITORY, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise UserError(f"{path} could not be written: `{' '.join(command[1:])}` ended with code {done.returncode}")
