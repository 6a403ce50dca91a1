"""Running `make prepare`'s program, and reading what it wrote without its own code."""

import csv
import os
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]


def prepare(
    data: Path, source: Path | str, *words: str, processes: int = 1, launcher: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    """Prepare `source` into `data`. launcher: what stands before the command."""
    command = [sys.executable, "-m", "pipeline.data.prepare", f"--data={data}", f"--from={source}"]
    return subprocess.run(
        [*launcher, *command, f"--processes={processes}", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, env=os.environ | {"COLUMNS": "500"},
    )  # fmt: skip


def files(data: Path) -> dict[str, bytes]:
    """All that a prepared folder holds for its readers."""
    return {path.name: path.read_bytes() for path in data.iterdir() if path.is_file()}


def read_split(data: Path, split: str) -> dict[str, tuple[bytes, int]]:
    """Image and label of each key, in order, as WebDataset finds them in the tars."""
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(data.glob(f"{split}-*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, kind = member.name.partition(".")
                content = tar.extractfile(member)
                assert content is not None
                found.setdefault(key, {})[kind] = content.read()
    return {key: (parts["jpg"], int(parts["cls"])) for key, parts in found.items()}


def read_rows(data: Path, split: str) -> list[dict[str, str]]:
    """The lines of a split's indexes, each with its tar's name as `tar`."""
    rows = []
    for path in sorted(data.glob(f"{split}-*.tsv")):
        with path.open() as file:
            rows += [row | {"tar": path.stem + ".tar"} for row in csv.DictReader(file, delimiter="\t")]
    return rows


def report_of(data: Path) -> dict[str, list[str]]:
    """The names under each heading of report.txt."""
    found: dict[str, list[str]] = {}
    for block in (data / "report.txt").read_text().split("\n\n")[1:]:
        heading, *lines = block.splitlines()
        found[heading.partition(":")[0]] = [line.split()[1] for line in lines]
    return found
