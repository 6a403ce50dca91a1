"""The whole of `make doctor`: a line a check, a count, and a code."""

from pathlib import Path

import pytest

from jobs.doctor.__main__ import main


def test_this_machine_is_fit_for_a_run(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exp=exp5", f"data.path={sample}", f"run.dir={tmp_path}/run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line[:4].strip() for line in lines[:-1]} <= {"ok", "warn", "skip", ""}
    assert ", 0 FAIL, " in lines[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_looked_at_from_elsewhere_fails_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    for program in ("bash", "sh"):
        (tmp_path / "bin" / program).symlink_to(f"/bin/{program}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert main(["exp=exp5", "site=abci3", "nodes=2", f"run.dir={tmp_path}/run"]) == 1
    output = capsys.readouterr().out
    assert "FAIL  scheduler's commands: found qsub, qstat, qdel not found; needed qsub, qstat, qdel; " in output
    assert "skip  scheduler: its commands are not here" in output
    assert output.count("module command") == 1


def test_words_that_are_no_run_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exp=exp5", "optim.lrr=1"]) == 1
    assert capsys.readouterr().err == "error: unknown key optim.lrr; did you mean optim.lr?\n"
