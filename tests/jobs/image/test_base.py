"""What of debootstrap's tree goes into a base: nothing of the machine that made it."""

import tarfile
from pathlib import Path

import pytest

from jobs.image.base import _pack, make_base
from jobs.image.programs import BUILDERS
from pipeline.errors import UserError


def test_caches_logs_and_names_of_this_machine_are_left_out(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in (
        "etc/passwd", "etc/hostname", "etc/resolv.conf", "var/cache/apt/archives/a.deb", "var/log/bootstrap.log",
        "var/lib/apt/lists/x", "usr/bin/env", "dev/null", "tmp/a",
    ):  # fmt: skip
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    _pack(tree, tmp_path / "base.tar")
    with tarfile.open(tmp_path / "base.tar") as packed:
        files = {member.name for member in packed if member.isfile()}
        folders = {member.name for member in packed if member.isdir()}
    assert files == {"./etc/passwd", "./usr/bin/env"}
    assert {"./tmp", "./var/log", "./var/lib/apt/lists", "./dev"} <= folders


def test_without_debootstrap_it_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "buildah").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "buildah").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="no debootstrap on PATH; needed: apt-get install debootstrap"):
        make_base(BUILDERS["buildah"], "suite")
