"""The executors as submitit's: submit, batch, what a job says of itself, and what a rank knows."""

import json
import os
import pickle
from pathlib import Path

import pytest
from submitit.core.utils import DelayedSubmission, UncompletedJobError

from jobs import pbs, slurm, task
from jobs.compose import compose
from jobs.prepare import create
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder
from tests.jobs import fake_pbs
from tests.jobs.runs import RESULT, add_attempt


@pytest.fixture
def run(tmp_path: Path, sample: Path) -> RunFolder:
    words = ["exp=exp5", "site=pbs", "site.queue=rt_HF", "nodes=2", f"data.path={sample}", f"run.dir={tmp_path}/run"]
    return create(compose(words), words)


def test_a_job_is_submitits_and_its_result_is_the_run_folders(server: Path, run: RunFolder) -> None:
    job = pbs.PbsExecutor(run.submission).submit(task.RunFolder(run.path))
    assert (job.job_id, job.done()) == ("0.pbsn0", False)
    fake_pbs.set_state(server, job.job_id, "finished")
    add_attempt(run, job.job_id, 0)
    run.result.write_text(json.dumps(RESULT))
    assert job.done()
    result: object = job.result()  # to submitit's types, what a rank returns
    assert result == RESULT


def test_what_was_submitted_is_kept_as_a_pickle_of_a_path(server: Path, run: RunFolder) -> None:  # noqa: ARG001
    job = pbs.PbsExecutor(run.submission).submit(task.RunFolder(run.path))
    kept = job.submission()
    assert isinstance(kept, DelayedSubmission)
    assert repr(kept.function) == f"RunFolder('{run.path}')"


@pytest.mark.parametrize("shared", [".", "submission"])
def test_a_pickle_that_somebody_else_could_have_written_is_not_read(server: Path, run: RunFolder, shared: str) -> None:  # noqa: ARG001
    job = pbs.PbsExecutor(run.submission).submit(task.RunFolder(run.path))
    (run.path / shared).chmod(0o770)
    canary = run.path / "canary"
    job.paths.submitted_pickle.write_bytes(pickle.dumps(Evil(canary)))
    with pytest.raises(UserError, match="can be written by others"):
        job.submission()
    assert not canary.exists()


class Evil:
    """Makes a file where it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._canary),)


def test_a_run_folder_that_somebody_else_could_have_written_is_not_submitted(server: Path, run: RunFolder) -> None:
    run.path.chmod(0o711)
    run.script.chmod(0o702)
    with pytest.raises(UserError, match=r"job\.sh can be written by others"):
        pbs.PbsExecutor(run.submission).submit(task.RunFolder(run.path))
    assert fake_pbs.calls(server, "qsub") == []


def test_a_failed_run_raises_with_its_own_words(server: Path, run: RunFolder) -> None:
    job = pbs.PbsExecutor(run.submission).submit(task.RunFolder(run.path))
    fake_pbs.set_state(server, job.job_id, "failed")
    attempt = add_attempt(run, job.job_id, 1)
    (attempt / "errors").mkdir()
    (attempt / "errors" / "rank-2").write_text("rank 2: sample x cannot be decoded\n")
    assert "rank 2: sample x cannot be decoded" in str(job.exception())


def test_a_cancelled_job_is_deleted_and_marked(server: Path, run: RunFolder) -> None:
    job = pbs.PbsExecutor(run.submission).submit(task.RunFolder(run.path))
    job.cancel()
    assert [call["argv"] for call in fake_pbs.calls(server, "qdel")] == [["0.pbsn0"]]
    assert run.cancelled.exists()
    assert isinstance(job.exception(), UncompletedJobError)


def test_only_run_folders_are_submitted(server: Path, run: RunFolder) -> None:  # noqa: ARG001
    with pytest.raises(TypeError, match=r"only task\.RunFolder can be submitted"):
        pbs.PbsExecutor(run.submission).submit(print, "x")


def test_a_rank_under_mpirun_does_not_take_slurms_word_for_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    of_slurm = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2"}
    of_mpirun = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "8"}
    for name, value in (of_slurm | of_mpirun).items():
        monkeypatch.setenv(name, value)
    found = slurm.SlurmEnvironment()
    assert found.activated()
    assert (found.job_id, found.global_rank, found.local_rank, found.num_tasks) == ("7", 5, 1, 8)


def test_executors_have_names_without_underscores() -> None:
    assert [one.name() for one in (slurm.SlurmExecutor, pbs.PbsExecutor)] == ["slurm", "pbs"]
