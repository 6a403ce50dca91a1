"""The scheduler is asked by its own commands, and what it says is told as it stands."""

import shutil
from pathlib import Path

import pytest

from jobs.doctor import scheduler
from jobs.doctor.finding import Finding
from tests.jobs.doctor.conftest import StandIn
from tests.jobs.doctor.subjects import at_site, subject

ANSWERS = Finding(scheduler.SERVER, "ok", "it answers")


def test_without_a_scheduler_there_is_nothing_to_ask() -> None:
    here = subject()
    levels = [one(here).level for one in (scheduler.commands, scheduler.server, scheduler.limits)]
    assert [*levels, scheduler.test(here, ANSWERS).level] == ["skip"] * 4


def test_commands_that_are_not_here_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None if program.startswith("q") else program)
    finding = scheduler.commands(at_site("pbs"))
    assert (finding.level, finding.found) == ("FAIL", "qsub, qstat, qdel not found")
    assert scheduler.server(at_site("pbs")).level == "skip"


VERSIONS = {
    "slurm": (
        "scontrol",
        "echo 'SLURM_CONF = /etc/slurm.conf'; echo 'SLURM_VERSION           = 22.05.8'",
        "SLURM 22.05.8",
    ),
    "pbs": ("qstat", "printf 'Server: pbsn0\\n    pbs_version = 23.06.06\\n'", "PBS 23.06.06"),
    "gridengine": ("qstat", "[ $1 = -help ] && echo 'SGE 8.1.9' || echo 'CLUSTER QUEUE'", "SGE 8.1.9"),
}
"""What answers, as real ones do, and what is to be told."""


@pytest.mark.parametrize("site", VERSIONS)
def test_the_servers_version_is_told(site: str, stand_in: StandIn) -> None:
    program, lines, expected = VERSIONS[site]
    for name in ("sbatch", "squeue", "scancel", "scontrol", "qsub", "qstat", "qdel"):
        stand_in(name, "exit 0")
    stand_in(program, lines)
    assert scheduler.server(at_site(site)) == Finding(scheduler.SERVER, "ok", expected)


@pytest.mark.parametrize("site", VERSIONS)
def test_a_server_that_does_not_answer_fails_with_its_clients_words(site: str, stand_in: StandIn) -> None:
    for name in ("sbatch", "squeue", "scancel", "scontrol", "qsub", "qstat", "qdel"):
        stand_in(name, "echo 'Unable to contact the server' >&2; exit 1")
    finding = scheduler.server(at_site(site))
    assert (finding.level, finding.found) == ("FAIL", "it does not answer (Unable to contact the server)")
    assert str(finding).startswith("FAIL  scheduler: it does not answer (Unable")
    assert scheduler.test(at_site(site), finding).level == "skip"


def test_more_than_the_site_grants_is_a_warning_with_what_would_do() -> None:
    finding = scheduler.limits(at_site("abci3", "nodes=136", "container=none"))
    assert finding.level == "warn"
    assert "abci3 grants 128; take NODES=" in finding.found
    assert scheduler.limits(at_site("abci3", "container=none")).level == "ok"


def test_slurm_tests_the_very_script_with_the_account(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in(
        "sbatch", f'echo "$*" > {tmp_path}/words; cp "${{@: -1}}" {tmp_path}/script; echo "sbatch: Job 3 to start" >&2'
    )
    stand_in("squeue", ""), stand_in("scancel", ""), stand_in("scontrol", "")
    finding = scheduler.test(at_site("slurm", "site.account_option=-A"), ANSWERS)
    assert finding == Finding(scheduler.TEST, "ok", "sbatch: Job 3 to start")
    assert (tmp_path / "words").read_text().startswith("--test-only -A grp /")
    assert "#SBATCH --nodes=2\n" in (tmp_path / "script").read_text()


def test_a_script_that_the_scheduler_refuses_fails_with_its_words(stand_in: StandIn) -> None:
    stand_in("sbatch", "echo 'sbatch: error: invalid partition specified: nosuch' >&2; exit 1")
    finding = scheduler.test(at_site("slurm"), ANSWERS)
    assert (finding.level, finding.found) == ("FAIL", "sbatch: error: invalid partition specified: nosuch")


@pytest.mark.parametrize(("said", "level"), [("found suitable queue(s)", "ok"), ("no suitable queues", "FAIL")])
def test_grid_engines_verdict_counts_whatever_its_exit_code(said: str, level: str, stand_in: StandIn) -> None:
    stand_in("qsub", f"[ \"$1 $2\" = '-w v' ] && echo 'verification: {said}'")
    assert scheduler.test(at_site("gridengine"), ANSWERS).level == level


def test_nothing_is_tested_without_an_account() -> None:
    assert "site.account" in scheduler.test(subject("site=abci", "nodes=2"), ANSWERS).found
