"""Grid Engine's words, as qstat, qacct and qsub of 8.1.9 print them."""

import pytest

from jobs import gridengine
from jobs.scheduler import Sighting
from pipeline.errors import UserError

LISTING = """<?xml version='1.0'?>
<job_info xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">
  <queue_info>
    <job_list state="running">
      <JB_job_number>1</JB_job_number><JB_name>t224-exp5</JB_name><JB_owner>user</JB_owner>
      <state>r</state><queue_name>main.q@node2</queue_name><slots>8</slots>
    </job_list>
    <job_list state="running">
      <JB_job_number>3</JB_job_number><JB_owner>user</JB_owner><state>Rr</state><slots>4</slots><tasks>2</tasks>
    </job_list>
  </queue_info>
  <job_info>
    <job_list state="pending">
      <JB_job_number>2</JB_job_number><JB_owner>user</JB_owner><state>Eqw</state><slots>8</slots>
    </job_list>
    <job_list state="pending">
      <JB_job_number>3</JB_job_number><JB_owner>user</JB_owner><state>qw</state><slots>4</slots><tasks>3,4-8:2</tasks>
    </job_list>
  </job_info>
</job_info>
"""


@pytest.mark.parametrize(
    ("number", "task", "state"),
    [
        ("1", "", "r"),
        ("2", "", "Eqw"),
        ("3", "2", "Rr"),
        ("3", "3", "qw"),
        ("3", "6", "qw"),
        ("3", "5", None),
        ("9", "", None),
    ],
)
def test_a_job_and_a_task_of_an_array_are_found_in_the_listing(number: str, task: str, state: str | None) -> None:
    assert gridengine.read_state(LISTING, number, task) == state


def test_a_listing_that_is_none_is_nothing() -> None:
    assert gridengine.read_state("error: unable to contact qmaster", "1", "") is None


def test_a_jobs_own_error_is_why_it_waits() -> None:
    details = 'job_number: 2\nerror reason    1:          can\'t make directory "/x"\nscheduling info:  other\n'
    assert gridengine.read_reason(details) == 'can\'t make directory "/x"'


def test_else_the_schedulers_first_remark_is_unless_it_makes_none() -> None:
    remark = 'scheduling info:            cannot run in PE "mpi" because it only offers 8 slots\n'
    assert gridengine.read_reason(remark) == 'cannot run in PE "mpi" because it only offers 8 slots'
    assert (
        gridengine.read_reason("scheduling info:            (Collecting of scheduler job information is turned off)\n")
        == ""
    )


RULE = "=" * 62


def record(start: str, failed: str, exit_status: int) -> str:
    return f"{RULE}\nqname        main.q\nstart_time   {start}\nfailed       {failed}\nexit_status  {exit_status}\n"


FIRST, SECOND = "Sun Nov 29 22:38:51 2026", "Sun Nov 29 22:59:02 2026"


@pytest.mark.parametrize(
    ("books", "expected"),
    [
        (record(FIRST, "0", 0), Sighting("ended", "done")),
        (record(FIRST, "0", 3), Sighting("ended", "done", "exit code 3")),
        (record(FIRST, "0", 0) + record(FIRST, "0", 1), Sighting("ended", "done", "exit code 1")),
        (record(FIRST, "25  : rescheduling", 99) + record(SECOND, "0", 0), Sighting("ended", "done")),
        (record(FIRST, "37  : qmaster enforced h_rt limit", 137),
         Sighting("ended", "failed 37", "ran out of its limits")),
    ],
)  # fmt: skip
def test_the_newest_start_and_the_worst_of_its_hosts_is_how_a_job_ended(books: str, expected: Sighting) -> None:
    assert gridengine.read_books(books) == expected


@pytest.mark.parametrize(("printed", "job_id"), [("5\n", "5"), ("6.1-4:1\n", "6"), ("warning\n7\n", "7")])
def test_the_id_is_what_qsub_prints(printed: str, job_id: str) -> None:
    assert gridengine.SCHEDULER.read_job_id(printed) == job_id


def test_without_an_id_it_is_an_error_with_what_was_printed() -> None:
    with pytest.raises(UserError, match="qsub printed no job id: Unable to run job"):
        gridengine.SCHEDULER.read_job_id("Unable to run job\n")
