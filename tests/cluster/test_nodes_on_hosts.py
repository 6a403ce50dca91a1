"""Ranks on emulated hosts: they meet on the site's interface and nowhere else, and are refused all alike."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.emulated_hosts import EmulatedHosts, missing, mpirun_command
from jobs import local

NODES, WORKERS_PER_NODE = 2, 1

lacking = missing(0.0)
pytestmark = pytest.mark.skipif(bool(lacking), reason=f"hosts cannot be emulated here: {lacking}")

RANK = """
import json, sys
from dataclasses import replace
from pathlib import Path
from mpi4py import MPI
from pipeline import workers
from pipeline.config import Grid
from pipeline.config.site import LinkConfig, NetworkConfig, SiteConfig
from pipeline.errors import UserError

def listening():
    tables = [Path(f"/proc/net/{table}").read_text() for table in ("tcp", "tcp6")]
    return {row.split()[1] for table in tables for row in table.splitlines() if row.split()[3] == "0A"}

link = LinkConfig(1.0, 10.0)
site = SiteConfig(
    name="hosts", scheduler="slurm", backend="gloo", device="cpu", threads_per_worker=1, interface=sys.argv[1],
    network=NetworkConfig(link, link),
)
refused = ""
try:
    workers.start(replace(site, require_ib=True), Grid(1, 2), 30.0)
except UserError as error:
    refused = str(error)
refused = MPI.COMM_WORLD.gather(refused)
told, stages = [], []
of_mpi = listening()
me = workers.start(site, Grid(1, 2), 30.0, at=stages.append, told=lambda report: told.extend(report.lines))
if me.is_head:
    found = {"refused": refused, "told": told, "stages": stages, "listening": sorted(listening() - of_mpi)}
    print(json.dumps(found), flush=True)
workers.stop(me.heartbeat)
"""


def test_ranks_meet_on_the_interface_and_are_refused_all_alike(tmp_path: Path) -> None:
    program = tmp_path / "rank.py"
    program.write_text(RANK)
    with EmulatedHosts(NODES, None) as hosts:
        command = mpirun_command(hosts, WORKERS_PER_NODE, [sys.executable, str(program), hosts.interface])
        environment = local.environment() | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        address = hosts.addresses[0]
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    why = "node0, node1: site.require_ib=true, and gloo talks by sockets; site.require_ib=false would run by sockets"
    assert found["refused"] == [why] * 2
    assert found["told"][:2] == ["nodes: 2 (node0, node1), 2 ranks", f"the first rank listens on: {address}"]
    assert found["stages"] == ["starting MPI", "comparing nodes", "connecting to the others"]
    own = "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
    assert {one.partition(":")[0] for one in found["listening"]} == {own}
