"""Fixtures of the jobs' tests."""

import ctypes
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


@pytest.fixture
def no_override() -> Iterator[None]:
    """Without root's right to read what modes forbid, where a test has it; threads that it starts too."""
    libc = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    had = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, had) == 0
    less = (ctypes.c_uint32 * 6)(*had)
    less[0] &= ~0b110  # effective CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert libc.capset(header, less) == 0
    yield
    assert libc.capset(header, had) == 0
