"""A folder is its user's where nobody else owns or can write anything in it, and none above it can be changed."""

import os
from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.ownership import check_own, exposed

NOBODY = 65534

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    (path / "config.yaml").write_text("")
    (path / "config.yaml").chmod(0o644)
    (path / "checkpoints").mkdir()
    (path / "checkpoints" / "update-000010.pt").touch(0o644)
    return path


def test_a_folder_that_only_its_user_can_write_is_own(folder: Path) -> None:
    folder.chmod(0o755)
    (folder / "gone").symlink_to(folder / "nowhere")
    check_own(folder)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (".", 0o770),
        (".", 0o1777),
        ("config.yaml", 0o664),
        ("config.yaml", 0o602),
        ("checkpoints/update-000010.pt", 0o666),
    ],
)
def test_what_others_can_write_is_not(folder: Path, name: str, mode: int) -> None:
    folder.chmod(0o755)
    (folder / name).chmod(mode)
    with pytest.raises(UserError, match=rf"can be written by others \(mode {mode:04o}\).*chmod -R go-w"):
        check_own(folder)


@needs_root
@pytest.mark.parametrize("name", [".", "config.yaml", "checkpoints/update-000010.pt"])
def test_what_another_user_owns_is_not(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(folder / name, NOBODY, NOBODY)
    with pytest.raises(UserError, match=r"belongs to nobody, so what is in .* may be somebody else's words"):
        check_own(folder)
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    check_own(folder)  # of root's files nobody could be safe anyway


@needs_root
def test_a_link_that_was_put_in_its_place_is_judged_by_what_it_leads_to(folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)
    link = folder.with_name("link")
    link.symlink_to(folder)
    with pytest.raises(UserError, match="belongs to nobody"):
        check_own(link)


@pytest.mark.parametrize(
    ("mode", "expected"), [(0o755, ""), (0o1777, ""), (0o775, "can be written by others (mode 0775)")]
)
def test_a_folder_above_that_others_can_change_exposes_a_path(tmp_path: Path, mode: int, expected: str) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    found = exposed(shared / "mine" / "run")
    assert found == (f"{shared} {expected}" if expected else "")
