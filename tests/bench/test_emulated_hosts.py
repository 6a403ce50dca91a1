"""What emulated hosts are told to do, as text; nothing is started here."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.emulated_hosts import (
    EmulatedHosts,
    counted,
    hosts_file,
    launch_agent,
    missing,
    mpirun_command,
    shaper,
)
from pipeline.errors import UserError


class Named(EmulatedHosts):
    """Hosts that are named and not there."""

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        return [f"on node{node}:", *command]


def test_every_host_has_an_address_of_its_own() -> None:
    hosts = EmulatedHosts(300, None)
    assert hosts.names[:2] == ["node0", "node1"]
    assert (hosts.addresses[0], hosts.addresses[299]) == ("10.77.0.1", "10.77.1.44")
    assert len(set(hosts.addresses)) == 300


@pytest.mark.parametrize(
    ("nodes", "rate", "round_trip_s"), [(0, None, 0.0), (1, 0.0, 0.0), (1, -1.0, 0.0), (1, None, -1.0)]
)
def test_what_no_network_can_be_is_refused(nodes: int, rate: float | None, round_trip_s: float) -> None:
    with pytest.raises(UserError, match=r"0|-1"):
        EmulatedHosts(nodes, rate, round_trip_s=round_trip_s)


def test_the_hosts_file_names_this_host_and_all_others() -> None:
    assert hosts_file(["a", "b"], ["10.0.0.1", "10.0.0.2"]) == "127.0.0.1 localhost\n10.0.0.1 a\n10.0.0.2 b"


def test_a_shaper_is_replaced_and_taken_away() -> None:
    assert shaper("eth0", 100e6) == "qdisc replace dev eth0 root tbf rate 100000000bit burst 65536 limit 16mb"
    assert "rate 10000000000bit burst 2500000 " in shaper("eth0", 10e9)  # 10 Gbit/s for 2 ms
    assert shaper("eth0", None) == "qdisc del dev eth0 root"


def test_bytes_are_those_that_the_shaper_counted() -> None:
    # As `tc -s -j qdisc show` of iproute2 6.1 prints them.
    words = '[{"kind":"tbf","handle":"8001:","root":true,"options":{"rate":12500000},"bytes":654321,"packets":433}]'
    assert counted(words) == 654321
    assert counted('[{"kind":"noqueue","handle":"0:","root":true,"bytes":7}]') == 0
    assert counted("") == 0


def test_the_launch_agent_refuses_a_host_that_is_not_there(tmp_path: Path) -> None:
    script = tmp_path / "agent"
    script.write_text(launch_agent({"node0": 4, "node1": 5}))
    done = subprocess.run(["sh", str(script), "node2", "true"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "launch-agent: no host node2\n")


def test_mpirun_starts_on_the_first_host_and_places_ranks_by_host() -> None:
    words = mpirun_command(Named(2, 1e8), 4, ["program", "an argument"], mca={"coll": "^han"}, environment={"A": "b c"})
    assert words[0] == "on node0:"
    assert str(Path(sys.executable).with_name("mpirun")) in words
    assert words[-2:] == ["program", "an argument"]
    for pair in (
        ["-n", "8"],
        ["--host", "node0:4,node1:4"],
        ["--map-by", "ppr:4:node:OVERSUBSCRIBE"],
        ["--bind-to", "none"],
        ["btl_tcp_if_include", "eth0"],
        ["coll", "^han"],
        ["-x", "A=b c"],
    ):
        assert pair in [words[place : place + 2] for place in range(len(words))]


def test_mpirun_deals_ranks_out_when_asked_to() -> None:
    words = mpirun_command(Named(2, 1e8), 4, ["program"], node_order="round-robin")
    assert words[words.index("--map-by") + 1] == "node:OVERSUBSCRIBE"


def test_what_a_machine_lacks_is_named_with_what_would_be_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert missing(0) == "root is needed; run it with sudo, or in a privileged container"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda program: None if program in ("tc", "gcc") else f"/bin/{program}")
    assert missing(0) == "tc not found; install with: apt-get install iproute2"
    assert missing(0.01) == "tc, gcc not found; install with: apt-get install gcc iproute2"
    with pytest.raises(UserError, match=r"^hosts cannot be emulated here: tc not found"), EmulatedHosts(1, None):
        pass
