"""Real schedulers for tests, each started once, when the first test asks for it.

Where this machine lacks something, the tests are skipped with the reason; with REQUIRE_CLUSTER=1 they fail instead.
"""

import os
from collections.abc import Iterator

import pytest

from tests.cluster.gridengine_cluster import GridEngineCluster
from tests.cluster.scheduler_hosts import SchedulerHosts
from tests.cluster.slurm_cluster import SlurmCluster


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """A SLURM that remembers past jobs, in a database."""
    need(SlurmCluster)
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slurm_without_accounting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """A SLURM without a database."""
    need(SlurmCluster)
    with SlurmCluster(tmp_path_factory.mktemp("slurm"), accounting=False) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def gridengine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridEngineCluster]:
    """A Grid Engine with what ABCI has added."""
    need(GridEngineCluster)
    with GridEngineCluster(tmp_path_factory.mktemp("gridengine")) as cluster:
        yield cluster


def need(kind: type[SchedulerHosts]) -> None:
    """Skip where a scheduler cannot be had, or fail where it must be."""
    lacking = kind.missing()
    if not lacking:
        return
    reason = f"no {kind.__name__} here: {lacking}"
    if os.environ.get("REQUIRE_CLUSTER") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
