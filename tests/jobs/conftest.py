"""Fixtures of the jobs' tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs import fake_pbs


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A PBS that takes jobs and says of them what a test wants."""
    folder = tmp_path / "server"
    for name, value in fake_pbs.install(folder).items():
        monkeypatch.setenv(name, value)
    yield folder
    fake_pbs.stop(folder)
