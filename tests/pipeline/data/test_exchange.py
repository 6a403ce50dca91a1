"""Batches are the same to the bit for any number of workers and nodes, wherever samples lie: real MPI, real workers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import local
from tests.pipeline.data.images import encoded, photo, write_images
from tests.pipeline.data.rank_of_batches import WORLDS, World

WORKERS = 8


@pytest.fixture(scope="module")
def digests(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[World, list[str]]:
    """What every world saw."""
    folder = tmp_path_factory.mktemp("exchange")
    (folder / "shm").mkdir()
    images = [encoded(photo(28, 28, number)) for number in range(480)]
    images[100] = b"no image"
    write_images(folder / "data", train=images, validation=images[:13])
    environment = {"OMP_NUM_THREADS": "1", "OMPI_MCA_btl_sm_backing_directory": str(folder)}
    program = [sys.executable, "-m", "tests.pipeline.data.rank_of_batches", str(folder / "data"), str(folder / "shm")]
    done = subprocess.run(
        local.launch_command(WORKERS, program), cwd=repository, env=local.environment() | environment,
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {World(**row["world"]): row["digests"] for row in rows}


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_batches_are_those_of_one_worker(digests: dict[World, list[str]], world: World) -> None:
    if world.exchange_every > 1:
        reference = World(8, 2, "replicated", exchange_every=2)
        on_nodes, shuffled = digests[reference], digests[World(1, 1, "replicated")]
        same = [one == other for one, other in zip(on_nodes, shuffled, strict=True)]
        assert same == [True] * 4 + [False] * 4 + [True]  # epochs 0 and 2 are global shuffles
    elif world.first_update:
        reference = World(
            4, 1, "partitioned", first_update=118, updates=4, span=4
        )  # on one node there is nothing to exchange
    else:
        reference = World(1, 1, "replicated")
    assert len(digests[world]) == world.updates
    assert len(set(digests[world])) == world.updates
    assert digests[world] == digests[reference][: world.updates]
