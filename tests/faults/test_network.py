"""A node of two is cut off, or goes down, while a run trains on both: the run ends, names it, and can go on."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import hosts_run
from bench.emulated_hosts import EmulatedHosts, missing
from bench.run_processes import processes
from pipeline.config import load, save
from pipeline.metrics import read_metrics
from pipeline.run_folder import RunFolder
from tests.faults.runs import EVERY, TIMEOUT_S, exit_code, wait_until
from tests.faults.table import Row, note

lacking = missing(0.0)
pytestmark = pytest.mark.skipif(bool(lacking), reason=f"hosts cannot be emulated here: {lacking}")

WORDS = [
    "exp=exp5", "workers=2", f"allreduce.timeout_s={TIMEOUT_S}", f"run.checkpoint_every_updates={EVERY}",
    "run.tensorboard=false", "data.decoder=torchvision", "data.placement=partitioned",
]  # fmt: skip


@pytest.fixture(scope="module")
def hosts() -> Iterator[EmulatedHosts]:
    with EmulatedHosts(2, None) as found:
        yield found


def strike(
    hosts: EmulatedHosts, folder: RunFolder, act: Callable[[int], None], when: Callable[[], bool] | None = None
) -> tuple[float, int]:
    """Start a run, let `act` befall its second node; seconds to its end, and updates lost. when: as of runs.strike."""
    process = hosts_run.start(hosts, folder)
    ready = when or (lambda: bool(folder.saved_updates()))
    wait_until(lambda: process.poll() is not None or ready(), every_s=0.01)
    began_s = time.monotonic()
    act(1)
    process.wait(120)
    took_s = time.monotonic() - began_s
    wait_until(lambda: processes(folder) == [])
    for node in range(hosts.nodes):
        assert not list(hosts.path(node, Path("/dev/shm")).glob("torus224-*"))
    done = max((line["update"] for line in lines(folder)), default=0)
    return took_s, max(0, done - max(folder.saved_updates(), default=0))


def lines(folder: RunFolder) -> list[dict[str, Any]]:
    return read_metrics(folder.metrics)


@pytest.mark.long
def test_a_node_that_is_cut_off_is_named_and_mpirun_does_not_wait_for_it(hosts: EmulatedHosts, tmp_path: Path) -> None:
    folder = hosts_run.make(hosts, tmp_path / "run", WORDS)
    took_s, lost = strike(hosts, folder, hosts.cut)
    line = folder.errors()[0]
    assert re.match(r"rank 0: rank 1 \(on node1\) does not answer: last heard of in update \d+, ", line)
    assert exit_code(folder) == 1
    hosts.mend(1)
    note(Row("a node cut off from the network", line, took_s, lost, go_on(hosts, folder)))


@pytest.mark.long
def test_a_node_that_is_cut_off_before_the_first_update_is_named_though_mpi_waits_for_ever(
    hosts: EmulatedHosts, tmp_path: Path
) -> None:
    folder = hosts_run.make(hosts, tmp_path / "run", WORDS)
    took_s, lost = strike(hosts, folder, hosts.cut, when=(folder.attempts / "0" / "ready").exists)
    line = folder.errors()[0]
    assert re.match(r"rank 0: rank 1 \(on node1\) does not answer: last heard of in ", line)
    assert exit_code(folder) == 1
    hosts.mend(1)
    note(Row("a node cut off before the first update", line, took_s, lost, go_on(hosts, folder)))


@pytest.mark.long
def test_a_run_goes_on_after_a_node_went_down(hosts: EmulatedHosts, tmp_path: Path) -> None:
    folder = hosts_run.make(hosts, tmp_path / "run", WORDS)
    took_s, lost = strike(hosts, folder, hosts.kill)
    said = folder.last_words(folder.job_log)
    assert said == "the launcher ended with code 0 before the ranks were done, as it does when a node goes down"
    assert exit_code(folder) == 1
    note(Row("a node that goes down", said, took_s, lost, go_on(hosts, folder)))


def go_on(hosts: EmulatedHosts, folder: RunFolder) -> str:
    """Start a run again for one update beyond its newest checkpoint; says from which."""
    saved = max(folder.saved_updates(), default=0)
    last = saved + 1
    config = load(folder.config)
    config.run.stop_after_updates = last
    save(config, folder.config)
    assert hosts_run.start(hosts, folder).wait(120) == 0, folder.errors()
    assert exit_code(folder) == 0
    assert folder.saved_updates()[-1] == last
    assert [line["update"] for line in lines(folder)] == list(range(1, last + 1))
    return "from its newest checkpoint" if saved else "from the beginning: no checkpoint was due yet"


def test_nothing_of_a_run_listens_when_it_has_ended(hosts: EmulatedHosts) -> None:
    for node in range(hosts.nodes):
        wait_until(lambda: not listening(hosts, node))  # noqa: B023 - it is over before the next node


def listening(hosts: EmulatedHosts, node: int) -> list[str]:
    """Lines of a node's sockets that wait for connections: state 0A."""
    shown = subprocess.run(hosts.command(node, ["cat", "/proc/net/tcp"]), capture_output=True, text=True, check=True)
    return [row for row in shown.stdout.splitlines()[1:] if row.split()[3] == "0A"]
