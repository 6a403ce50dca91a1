"""Where a run writes: rights, locks and room."""

import os
import shutil
from pathlib import Path

import pytest

from jobs.doctor import folder
from tests.jobs.doctor.subjects import at_site, subject


def test_a_folder_that_can_be_written_and_locked_is_right(tmp_path: Path) -> None:
    written, locks = folder.folder(subject(f"run.dir={tmp_path}/a/b"))
    assert (written.level, locks.level) == ("ok", "ok")
    assert written.found == f"{tmp_path} can be written"


@pytest.mark.parametrize(
    ("said", "levels"),
    [
        ("print('[Errno 37] No locks available')", ("ok", "warn")),
        ("print('two locks at once')", ("ok", "warn")),
        ("raise PermissionError('Permission denied')", ("FAIL", "skip")),
    ],
)
def test_a_file_system_without_locks_or_rights_is_told(
    said: str, levels: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "TRY_LOCKS", said)
    found = folder.folder(subject(f"run.dir={tmp_path}/run"))
    assert tuple(finding.level for finding in found) == levels


def test_checkpoints_need_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, usage = subject(f"run.dir={tmp_path}/run"), shutil.disk_usage(tmp_path)._replace(free=0)
    assert folder.space(here).level == "ok"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert folder.space(here).level == "FAIL"


@pytest.mark.parametrize(("cores", "level"), [(4, "ok"), (2, "warn")])
def test_fewer_cores_than_workers_only_warn(cores: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert folder.cores(subject("workers=4")).level == level
    assert folder.cores(at_site("slurm")).level == "skip"


def test_a_folder_above_that_others_can_change_is_a_warning(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    written, _ = folder.folder(subject(f"run.dir={tmp_path}/run"))
    assert (written.level, written.found) == ("warn", f"{tmp_path} can be written by others (mode 0777)")
