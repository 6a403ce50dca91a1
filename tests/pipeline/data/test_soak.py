"""The loader over many epochs: its memory stays flat."""

import subprocess
import sys
from pathlib import Path

import pytest

EPOCHS = 200
PROGRAM = """
import sys
from itertools import islice
from pathlib import Path
from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.data.loader import TrainingLoader
from pipeline.data.shards import read_index
from pipeline.data.staging import stage
from pipeline.evaluate import OneProcess

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

config = compose(["exp=exp5", "workers=1", "data.train_samples=640", *sys.argv[2:]])
plan = make_plan(config)
(memory,) = stage([read_index(Path(sys.argv[1]), "train").first(640)], OneProcess())
epochs = 0
while epochs < {epochs}:
    loader = TrainingLoader(memory, config.data, plan, seed=0, worker=0, first_update=0)
    for epoch in range(plan.epochs):
        list(islice(loader, plan.stage_at(epoch).updates_per_epoch))
        epochs += 1
        print(epochs, resident_bytes(), flush=True)
    loader.close()
"""


@pytest.mark.long
@pytest.mark.parametrize("decoder", ["dali", "torchvision"])
def test_memory_is_flat_over_200_epochs(repository: Path, sample: Path, decoder: str) -> None:
    program = PROGRAM.replace("{epochs}", str(EPOCHS))
    done = subprocess.run(
        [sys.executable, "-c", program, str(sample), f"data.decoder={decoder}"],
        cwd=repository, capture_output=True, text=True, check=True,
    )  # fmt: skip
    resident = [int(line.split()[1]) for line in done.stdout.splitlines()]
    assert len(resident) >= EPOCHS
    assert max(resident[5:]) <= 1.05 * resident[4], [f"{one / 1e6:.0f} MB" for one in resident[::20]]
