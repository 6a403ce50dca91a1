"""A run that goes on after any of its updates is the uninterrupted one to the bit: real MPI, real workers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import local
from jobs.compose import compose
from pipeline.config import make_plan
from tests.faults.rank_of_resumes import WORDS, WORLDS, drawn
from tests.pipeline.data.images import encoded, photo, write_images

DRAWS = 20
SHORT, SHORT_DRAWS = "2", 4
"""What `make test` runs of it."""


def resumed(repository: Path, folder: Path, world: str, draws: int) -> list[dict[str, Any]]:
    """A row a resume."""
    images = [encoded(photo(28, 28, number)) for number in range(470)]
    write_images(folder / "data", train=images, validation=images[:8])
    program = [sys.executable, "-m", "tests.faults.rank_of_resumes", str(folder / "runs"), str(folder / "data")]
    environment = {"OMP_NUM_THREADS": "1", "OMPI_MCA_btl_sm_backing_directory": str(folder)}
    done = subprocess.run(
        local.launch_command(WORLDS[world].workers, [*program, world, str(draws)]), cwd=repository,
        env=local.environment() | environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(
    ("world", "draws"),
    [(SHORT, SHORT_DRAWS), *(pytest.param(world, DRAWS, marks=pytest.mark.long) for world in WORLDS)],
)
def test_a_run_goes_on_to_the_bit_after_any_update_and_at_a_switch_of_stages(
    repository: Path, tmp_path: Path, world: str, draws: int
) -> None:
    plan = make_plan(compose([*WORLDS[world].words, *WORDS]))
    updates = drawn(world, plan, draws)
    assert {plan.position(update)[1] == 0 for update in updates} == {True, False}
    assert {plan.first_update(3), plan.first_update(6)} <= set(updates)
    found = resumed(repository, tmp_path, world, draws)
    wanted = [(placement, update) for placement in ("replicated", "partitioned") for update in updates]
    assert [(row["placement"], row["update"]) for row in found] == wanted
    for row in found:
        assert row["differ"] == [], row
        assert row["buckets"] > 3
