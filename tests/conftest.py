"""Fixtures of all tests."""

import gc
import os
import signal
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # several worlds of workers share two cores

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what it starts in the background; it is
    signal.signal(signal.SIGINT, signal.default_int_handler)  # inherited, and some tests interrupt what they start

REPOSITORY = Path(__file__).resolve().parent.parent


LONGEST = ["test_slurm_jobs.py", "test_gridengine_jobs.py", "test_make.py", "test_trainer.py", "test_lost_worker.py"]
"""Files to start with, in this order, so that all processes end together. The first two wait more than they compute:
there is a process more than cores for that."""


gc.disable()  # while the packages under test are imported: a million objects and no garbage


def pytest_collection_finish() -> None:
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def sample() -> Path:
    """The prepared sample, as `make sample` leaves it."""
    folder = REPOSITORY / "data" / "sample"
    assert (folder / "manifest.json").is_file(), "run `make sample` first (`make test` does)"
    return folder
