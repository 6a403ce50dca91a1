"""What starts the ranks is looked for as the job would find it."""

import pytest

from jobs.doctor import launcher
from tests.jobs.doctor.conftest import StandIn
from tests.jobs.doctor.subjects import at_site, subject


def test_here_it_is_the_mpirun_beside_python() -> None:
    here = subject()
    finding = launcher.launcher(here)
    assert finding.level == "ok"
    assert finding.found.startswith(f"{launcher.program_of(here)}, Open MPI ")
    assert set(launcher.versions(here)) == {"Open MPI", "PMIx"}


def test_another_mpi_or_none_fails(stand_in: StandIn) -> None:
    there = at_site("pbs", "site.launcher_path=mpirun")
    assert launcher.launcher(there).found.startswith("mpirun not found")
    stand_in("mpirun", "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.9'")
    finding = launcher.launcher(there)
    assert (finding.level, finding.needed) == ("FAIL", "Open MPI's mpirun")
    assert "Intel" in finding.found


OMPI_INFO = "echo '                MCA pmix: pmix3x (MCA v2.1.0, API v2.0.0, Component v4.1.4)'"


def test_versions_of_open_mpi_4_come_from_its_own_program(stand_in: StandIn) -> None:
    stand_in("mpirun", "echo 'mpirun (Open MPI) 4.1.4'")
    stand_in("ompi_info", OMPI_INFO)
    assert launcher.versions(at_site("pbs", "site.launcher_path=mpirun")) == {"Open MPI": "4.1.4", "PMIx": "3.x"}


@pytest.mark.parametrize(("listed", "level"), [("none pmi2 pmix pmix_v4", "ok"), ("none pmi2", "FAIL")])
def test_srun_needs_pmix(listed: str, level: str, stand_in: StandIn) -> None:
    stand_in("srun", f"echo 'MPI plugin types are...' >&2; printf '\\t%s\\n' {listed} >&2")
    assert launcher.launcher(at_site("slurm", "site.launcher=srun")).level == level


def test_an_agent_that_is_not_here_is_a_warning_since_the_nodes_may_have_it(stand_in: StandIn) -> None:
    there = at_site("pbs")
    assert launcher.agent(there).level == "warn"
    path = stand_in("pbs_tmrsh", "exit 0")
    assert launcher.agent(there).found == str(path)
    assert launcher.agent(at_site("slurm")).level == "skip"


def test_modules_that_do_not_load_fail(stand_in: StandIn) -> None:
    stand_in("module", '[ "$2" = mpi/4 ]')
    assert launcher.modules(at_site("pbs", "site.modules=[mpi/4]")).level == "ok"
    finding = launcher.modules(at_site("pbs", "site.modules=[mpi/4,cuda/13]"))
    assert finding.level == "FAIL"
    assert "module load cuda/13 failed" in finding.found
    assert launcher.modules(at_site("pbs")).level == "skip"
