"""What became of a run: every word, from what its script left and what a scheduler says."""

from pathlib import Path

import pytest

from jobs.scheduler import Sighting
from jobs.state import State, find_out, jobs_of
from pipeline.run_folder import RunFolder
from tests.jobs.runs import Answers, add_attempt, make_run, no_scheduler

PENDING = Sighting("waiting", "PENDING", "Resources")
RUNNING = Sighting("running", "RUNNING")
SILENT = Sighting("unanswered", reason="squeue did not answer within 60 s; try again later")
GONE = Sighting("absent")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path / "run", jobs=["7"])


def state(folder: RunFolder, **seen: Sighting) -> State:
    """seen: what the scheduler says of job 7, as job_7=…."""
    return find_out(folder, Answers({name.removeprefix("job_"): one for name, one in seen.items()}).ask)


def test_a_folder_that_nobody_submitted_is_not_submitted(tmp_path: Path) -> None:
    assert find_out(make_run(tmp_path / "run"), no_scheduler).word == "not submitted"


def test_a_job_in_the_queue_waits_for_what_the_scheduler_says(folder: RunFolder) -> None:
    assert state(folder, job_7=PENDING) == State("waiting", "to start: Resources", "7")


def test_a_job_that_can_never_run_says_so(folder: RunFolder) -> None:
    seen = Sighting("waiting", "PENDING", "PartitionTimeLimit", never=True)
    assert state(folder, job_7=seen) == State("waiting", "cannot run as it is: PartitionTimeLimit", "7")


def test_a_job_whose_script_has_begun_runs(folder: RunFolder) -> None:
    add_attempt(folder, "7")
    assert state(folder, job_7=RUNNING) == State("running", "", "7")


def test_a_script_that_ends_while_the_scheduler_is_asked_is_not_lost(folder: RunFolder) -> None:
    attempt = add_attempt(folder, "7")

    def ask(_: str) -> Sighting:
        (attempt / "exit").write_text("0\n")
        return Sighting("ended", "COMPLETED")

    assert find_out(folder, ask) == State("done", "", "7")


def test_exit_code_0_is_done_whatever_the_queue_says(folder: RunFolder) -> None:
    add_attempt(folder, "7", 0)
    assert find_out(folder, no_scheduler) == State("done", "", "7")


def test_a_failure_says_what_a_rank_said_and_asks_nobody(folder: RunFolder) -> None:
    attempt = add_attempt(folder, "7", 1)
    (attempt / "errors").mkdir()
    (attempt / "errors" / "rank-3").write_text("rank 3: sample x cannot be decoded\n")
    assert find_out(folder, no_scheduler) == State("failed", "exit code 1: rank 3: sample x cannot be decoded", "7")


def test_a_failure_without_a_rank_that_spoke_says_the_logs_last_words(folder: RunFolder) -> None:
    add_attempt(folder, "7", 1)
    folder.job_log.write_text("mpirun: command not found\n\n")
    assert state(folder, job_7=GONE).why == "exit code 1: mpirun: command not found"


def test_a_rank_that_was_killed_is_named_from_mpiruns_words_of_this_attempt(folder: RunFolder) -> None:
    add_attempt(folder, "7", 137)
    folder.job_log.write_text(
        "job 6, attempt 0\nprterun noticed that process rank 9 with PID 1 on node n9 exited on\nsignal 9 (Killed).\n"
        "job 7, attempt 1\n------\nprterun noticed that process rank 3 with PID 71 on node n2 exited on\n"
        "signal 9 (Killed).\n--------\n"
    )
    assert state(folder, job_7=GONE).why == "exit code 137: rank 3 (process 71 on n2) was ended by signal 9"


def test_a_rank_that_was_killed_in_the_first_attempt_is_named_too(folder: RunFolder) -> None:
    add_attempt(folder, "7", 137)
    folder.job_log.write_text(
        "job 7, attempt 0\n------\nprterun noticed that process rank 3 with PID 71 on node n2 exited on\n"
        "signal 9 (Killed).\n--------\n"
    )
    assert state(folder, job_7=GONE).why == "exit code 137: rank 3 (process 71 on n2) was ended by signal 9"


def test_lines_that_only_divide_are_nobodys_last_words(folder: RunFolder) -> None:
    add_attempt(folder, "7", 2)
    folder.job_log.write_text("no such file\n-------\n\n")
    assert state(folder, job_7=GONE).why == "exit code 2: no such file"


def test_a_run_whose_launcher_was_taken_away_waits_where_the_scheduler_starts_it_again(folder: RunFolder) -> None:
    add_attempt(folder, "7", 1)
    assert state(folder, job_7=PENDING) == State("waiting", "to go on: Resources", "7")


def test_a_failed_run_whose_dependent_jobs_still_stand_in_the_queue_has_failed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", jobs=["7", "8"])
    add_attempt(folder, "7", 1)
    assert state(folder, job_8=PENDING).word == "failed"


def test_a_run_that_saved_and_is_to_be_started_again_waits(folder: RunFolder) -> None:
    add_attempt(folder, "7", 85)
    assert state(folder, job_7=PENDING) == State("waiting", "to go on: Resources", "7")


def test_a_run_that_saved_and_used_its_starts_is_saved(folder: RunFolder) -> None:
    add_attempt(folder, "7", 85, not_again="its 3 new starts (site.requeue.max) are used up\n")
    expected = State("saved", "its 3 new starts (site.requeue.max) are used up", "7")
    assert find_out(folder, no_scheduler) == expected


def test_a_run_that_saved_and_has_no_job_is_saved(folder: RunFolder) -> None:
    add_attempt(folder, "7", 85)
    assert state(folder, job_7=GONE).word == "saved"


def test_a_saved_run_is_unknown_while_the_scheduler_is_silent(folder: RunFolder) -> None:
    add_attempt(folder, "7", 85)
    assert state(folder, job_7=SILENT) == State("unknown", SILENT.reason, "7")


def test_a_job_that_a_signal_ended_may_be_started_again(folder: RunFolder) -> None:
    add_attempt(folder, "7", 143)
    assert state(folder, job_7=PENDING).word == "waiting"
    assert state(folder, job_7=GONE).word == "failed"


def test_a_job_that_nobody_knows_any_more_is_lost(folder: RunFolder) -> None:
    add_attempt(folder, "7")
    assert state(folder, job_7=GONE).word == "lost"
    assert state(folder, job_7=Sighting("ended", "NODE_FAIL")).why == "its job ended without a word (NODE_FAIL)"


def test_a_job_that_ended_before_its_script_began_is_lost_with_the_schedulers_log(folder: RunFolder) -> None:
    (folder.log / "scheduler.log").write_text("error: cannot open job.sh\n")
    assert state(folder, job_7=GONE) == State("lost", "ended before its script began; error: cannot open job.sh", "7")


def test_a_cancelled_run_is_cancelled_before_and_after_its_script_began(folder: RunFolder) -> None:
    folder.cancelled.touch()
    assert state(folder, job_7=GONE).word == "cancelled"
    add_attempt(folder, "7")
    assert state(folder, job_7=GONE).word == "cancelled"
    assert state(folder, job_7=RUNNING).word == "running"  # until the scheduler has ended it


def test_a_silent_scheduler_makes_it_unknown_with_its_reason(folder: RunFolder) -> None:
    assert state(folder, job_7=SILENT) == State("unknown", SILENT.reason, "7")
    add_attempt(folder, "7")
    assert state(folder, job_7=SILENT) == State("unknown", SILENT.reason, "7")


@pytest.mark.parametrize("code", [0, 1, 85, 143])
def test_a_later_submission_is_what_counts(folder: RunFolder, code: int) -> None:
    add_attempt(folder, "7", code)
    folder.note_submission("slurm", ["9"])
    assert state(folder, job_9=PENDING) == State("waiting", "to go on: Resources", "9")
    assert state(folder, job_9=RUNNING) == State("running", "its script has not begun yet", "9")


def test_a_run_on_this_machine_needs_no_scheduler(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ["exp=exp5"])
    add_attempt(folder, "4711")
    assert find_out(folder, None).word == "lost"
    (folder.attempts / "0" / "exit").write_text("85\n")
    assert find_out(folder, None) == State("saved", "it is not started again by itself", "4711")


def test_a_job_whose_script_runs_counts_whatever_was_submitted_since(folder: RunFolder) -> None:
    add_attempt(folder, "7")
    folder.note_submission("slurm", ["8"])
    assert state(folder, job_7=RUNNING, job_8=Sighting("ended", "FAILED")) == State("running", "", "7")
    assert jobs_of(folder) == ["7", "8"]


def test_a_run_that_was_ended_by_term_says_so_unless_somebody_said_more(folder: RunFolder) -> None:
    attempt = add_attempt(folder, "7", 143)
    folder.job_log.write_text("job 7, attempt 0\n[n1:12] PMIX ERROR: unreachable in file x.c at line 3\n")
    expected = "exit code 143: ended from outside (TERM), by a cancel or the site"
    assert state(folder, job_7=GONE).why == expected
    (attempt / "errors").mkdir()
    (attempt / "errors" / "rank-3").write_text("rank 3: sample x cannot be decoded\n")
    assert state(folder, job_7=GONE).why == "exit code 143: rank 3: sample x cannot be decoded"


def test_what_is_no_job_in_an_attempt_is_none(folder: RunFolder) -> None:
    add_attempt(folder, "--me")
    assert "--me" not in jobs_of(folder)
