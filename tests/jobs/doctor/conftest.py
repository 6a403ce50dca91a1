"""Stand-ins for the programs that checks ask."""

from collections.abc import Callable
from pathlib import Path

import pytest

StandIn = Callable[[str, str], Path]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """`stand_in(name, lines)` puts a shell program of that name first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def make(name: str, lines: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/bash\n{lines}\n")
        path.chmod(0o755)
        return path

    return make
