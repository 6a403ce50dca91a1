"""A made-up ImageNet, and what `make prepare` makes of it, once."""

from pathlib import Path

import pytest

from tests.pipeline.data.prepare import ilsvrc
from tests.pipeline.data.prepare.command import prepare

WORDS = ("prepare.shard_bytes=100000", "prepare.unreadable=leave_out")


@pytest.fixture(scope="session")
def tars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tars")
    ilsvrc.write_all(folder)
    return folder


@pytest.fixture(scope="session")
def prepared(tars: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared") / "data"
    done = prepare(folder, tars, *WORDS)
    assert done.returncode == 0, done.stderr
    return folder
