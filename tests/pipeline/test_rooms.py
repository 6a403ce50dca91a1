"""The rooms that may not know tensors do not import torch, and the training program does not know its jobs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TORCH_FREE = [
    "pipeline",
    "pipeline.allreduce.shapes",
    "pipeline.config",
    "pipeline.binding",
    "pipeline.data.sources",
    "pipeline.diagnosis",
    "pipeline.estimate.algorithms",
    "pipeline.estimate.fitted_wall_time",
    "pipeline.estimate.prediction",
    "pipeline.estimate.network",
    "pipeline.estimate.placement",
    "pipeline.node_checks",
    "pipeline.node_facts",
    "pipeline.rendezvous",
    "pipeline.starting",
    "pipeline.transport",
    "pipeline.world",
    "pipeline.metrics",
    "pipeline.result",
    "pipeline.run_folder",
    "pipeline.data.prepare.__main__",
    "pipeline.published",
    "pipeline.report.console",
    "pipeline.report.files",
    "pipeline.report.study",
    "pipeline.report.plot",
    "pipeline.report.estimate_plot",
    "pipeline.report.estimate_formulas",
    "pipeline.report.torus_picture",
    "pipeline.events",
    "pipeline.mlperf",
    "jobs.submit",
    "jobs.render",
    "jobs.status",
    "jobs.logs",
    "jobs.cancel",
    "jobs.resubmit",
    "jobs.report",
    "jobs.scaling",
    "jobs.study",
    "jobs.study_results",
    "jobs.estimate",
    "jobs.doctor.__main__",
    "jobs.image.check",
]


@pytest.mark.parametrize("room", TORCH_FREE)
def test_it_imports_without_torch(room: str) -> None:
    code = f"import {room}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_pipeline_never_imports_jobs_or_hydra() -> None:
    for path in (ROOT / "pipeline").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in ("jobs", "hydra")], path


def test_jobs_import_only_torch_free_rooms() -> None:
    rooms = ("config", "run_folder", "metrics", "estimate", "published", "report", "errors", "wording", "world")
    allowed = tuple(f"pipeline.{room}" for room in rooms)
    of_ranks = ROOT / "jobs" / "task.py"  # it starts a rank, and imports what that needs only then
    for path in set((ROOT / "jobs").rglob("*.py")) - {of_ranks}:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pipeline"):
                assert (node.module or "").startswith(allowed), f"{path.name} imports {node.module}"
