"""Going on with a run of a cluster by a new submission: when, with what, and that its folder is never lost."""

import json
import os
from pathlib import Path

import pytest

from jobs import command_line, prepare, resubmit, submit
from jobs.compose import compose
from pipeline.config import load
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder
from tests.jobs.runs import RESULT, add_attempt

WORDS = ["exp=exp5", "site=slurm", "nodes=16", "site.wall_time=1:00:00"]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for SLURM's commands: sbatch gives job 8, and squeue says of any job what `slurm/state` says."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    (folder / "state").write_text("")
    programs = {
        "sbatch": f'echo "$*" >> {folder}/submitted; echo 8',
        "squeue": f"cat {folder}/state",
        "sacct": "exit 1",
        "scancel": "exit 0",
        "scontrol": "exit 0",
    }
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def folder(tmp_path: Path, sample: Path) -> RunFolder:
    """A run that was submitted as job 7."""
    words = [*WORDS, f"data.path={sample}", f"run.dir={tmp_path}/run"]
    made = prepare.create(compose(words), words)
    made.note_submission("slurm", ["7"])
    return made


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code, and what was printed."""
    code = command_line.run(resubmit.main, list(words))
    captured = capsys.readouterr()
    return code, captured.err if code else captured.out


ENDED = {"saved": 85, "failed": 1, "cancelled": 143, "lost": None, "lost before it began": None}


@pytest.mark.parametrize("word", ENDED)
def test_a_run_that_has_ended_goes_on_as_a_new_job(
    slurm: Path, folder: RunFolder, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    if word != "lost before it began":
        add_attempt(folder, "7", ENDED[word])
    if word == "cancelled":
        folder.cancelled.touch()
    folder.starts.write_text("3\n")
    assert call(capsys, str(folder.path), "site.wall_time=2:00:00") == (
        0,
        f"job 8 at slurm, run folder: {folder.path}\n",
    )
    assert folder.job_ids() == ["8"]
    assert not folder.cancelled.exists()
    assert not folder.starts.exists()
    assert load(folder.config).site.wall_time == "2:00:00"
    assert "#SBATCH --time=2:00:00" in folder.script.read_text()
    assert str(folder.script) in (slurm / "submitted").read_text()


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("PENDING|Resources", "is waiting as job 7 (to start: Resources); make cancel RUN="),
        ("RUNNING|None", "is running as job 7 (its script has not begun yet); make cancel RUN="),
    ],
)
def test_a_run_that_waits_or_runs_is_refused(
    slurm: Path, folder: RunFolder, capsys: pytest.CaptureFixture[str], state: str, expected: str
) -> None:
    (slurm / "state").write_text(state + "\n")
    code, said = call(capsys, str(folder.path))
    assert (code, said.count("\n")) == (1, 1)
    assert expected in said
    assert folder.job_ids() == ["7"]


def test_a_run_of_which_the_scheduler_does_not_say_is_refused(
    slurm: Path, folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (slurm / "squeue").write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2; exit 1\n")
    code, said = call(capsys, str(folder.path))
    assert code == 1
    assert "nobody can say whether job 7 still runs: Unable to contact slurm controller" in said


def test_a_finished_run_has_nothing_left_to_do(
    slurm: Path, folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    add_attempt(folder, "7", 0)
    folder.result.write_text(json.dumps(RESULT))
    assert call(capsys, str(folder.path)) == (
        1,
        f"error: {folder}: nothing left to do, all 2,010 updates are done\n",
    )
    assert not (slurm / "submitted").exists()


def test_a_run_that_stopped_where_it_was_asked_to_goes_on(
    slurm: Path, folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    add_attempt(folder, "7", 0)
    folder.result.write_text(json.dumps(RESULT | {"complete": False, "updates": 100}))
    assert call(capsys, str(folder.path))[0] == 0
    assert (slurm / "submitted").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["optim.lr=1.0"], "optim.lr was 3.1"),
        (["nodes=17"], "nodes was 16"),
        (["optim.lrr=1.0"], "unknown key optim.lrr; did you mean optim.lr?"),
        (["site.limits.hours=1", "site.wall_time=3:00:00"], "is longer than the 1 hours that slurm grants"),
        (["--quick"], "unrecognized arguments: --quick"),
    ],
)
def test_a_refusal_changes_nothing(
    slurm: Path, folder: RunFolder, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    add_attempt(folder, "7", 143)
    folder.cancelled.touch()
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    code, said = call(capsys, str(folder.path), *words)
    assert (code, said.count("\n")) == (1, 1)
    assert expected in said
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()} == before
    assert not (slurm / "submitted").exists()


def test_a_folder_stays_whose_new_job_the_scheduler_refuses(
    slurm: Path, folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (slurm / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: Invalid account' >&2; exit 1\n")
    assert call(capsys, str(folder.path)) == (1, "error: SLURM refuses the job: sbatch: error: Invalid account\n")
    assert folder.config.is_file()
    assert folder.job_ids() == ["7"]


def test_a_run_of_this_machine_is_gone_on_with_by_make_train(
    tmp_path: Path, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"data.path={sample}", f"run.dir={tmp_path}/run"]
    made = prepare.create(compose(words), words)
    assert call(capsys, str(made.path)) == (
        1,
        f"error: {made} is a run of this machine; go on with: make train RESUME={made}\n",
    )


def test_a_run_of_a_cluster_never_goes_on_here(folder: RunFolder) -> None:
    add_attempt(folder, "7", 1)
    with pytest.raises(UserError, match="is a run of the site slurm; go on with: make resubmit RUN="):
        prepare.resume(str(folder.path), [])


def test_going_on_here_takes_back_a_cancellation(tmp_path: Path, sample: Path) -> None:
    words = [f"data.path={sample}", f"run.dir={tmp_path}/run"]
    made = prepare.create(compose(words), words)
    made.cancelled.touch()
    prepare.resume(str(made.path), [])
    assert not made.cancelled.exists()


def test_a_chain_of_which_a_later_job_is_refused_leaves_none_in_the_queue(
    slurm: Path, tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (slurm / "sbatch").write_text('#!/bin/sh\ncase "$*" in *afternotok*) echo no >&2; exit 1 ;; esac\necho 8\n')
    (slurm / "scancel").write_text(f'#!/bin/sh\necho "$1" >> {slurm}/cancelled\n')
    chained = [*WORDS, "site.requeue.how=chain", "site.requeue.max=2"]
    monkeypatch.setattr("sys.argv", ["submit", *chained, f"data.path={sample}", f"run.dir={tmp_path}/run"])
    assert submit.main() == 1
    assert capsys.readouterr().err == "error: SLURM refuses the job: no; nothing stays in the queue\n"
    assert (slurm / "cancelled").read_text() == "8\n"
    assert not (tmp_path / "run").exists()
