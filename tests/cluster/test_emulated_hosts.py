"""Emulated hosts, with real namespaces: needs root and iproute2, and for a delay gcc and /dev/net/tun."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench import mpi_peers
from bench.emulated_hosts import EmulatedHosts, missing, mpirun_command
from jobs import local

if missing(0):
    pytest.skip(f"hosts cannot be emulated here: {missing(0)}", allow_module_level=True)

needs_a_delay = pytest.mark.skipif(bool(missing(0.1)), reason=f"no delay can be emulated here: {missing(0.1)}")

LIMIT_S = 60
RATE = 100e6
HEADERS = 1.046
"""Ethernet, IP and TCP add 66 bytes to 1448."""

ANSWER = """
import socket
server = socket.create_server(("node1", 5000))
print("listening", flush=True)
connection, _ = server.accept()
while received := connection.recv(1 << 16):
    if len(received) == 1:
        connection.sendall(received)
"""

SEND = """
import socket, sys
connection = socket.create_connection(("node1", 5000))
connection.sendall(bytes(int(sys.argv[1])))
"""

ASK = """
import socket, time
connection = socket.create_connection(("node1", 5000))
for _ in range(3):
    began = time.perf_counter()
    connection.sendall(b"x")
    connection.recv(1)
    print(time.perf_counter() - began)
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[EmulatedHosts]:
    with EmulatedHosts(2, RATE) as made:
        yield made


def on(hosts: EmulatedHosts, node: int, *command: str) -> str:
    """What a command prints on a host."""
    done = subprocess.run(hosts.command(node, command), stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True)
    return done.stdout


def to_node1(hosts: EmulatedHosts, *program: str) -> str:
    """What a Python program on node0 prints that talks to ANSWER on node1."""
    with subprocess.Popen(hosts.command(1, [sys.executable, "-c", ANSWER]), stdout=subprocess.PIPE) as answering:
        try:
            assert answering.stdout is not None
            assert answering.stdout.readline() == b"listening\n"
            said = on(hosts, 0, sys.executable, "-c", *program)
            answering.wait(LIMIT_S)  # until all has arrived
        finally:
            answering.kill()
    return said


@dataclass(frozen=True)
class Process:
    """A process of this machine; its start tells it from a later one with the same number."""

    pid: int
    parent: int
    started: int

    @classmethod
    def read(cls, folder: Path) -> "Process | None":
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            return None
        return None if words[0] == "Z" else cls(int(folder.name), int(words[1]), int(words[19]))


def descendants(pid: int) -> list[Process]:
    """All processes that a process has started, and these, and so on."""
    every = [process for folder in Path("/proc").glob("[0-9]*") if (process := Process.read(folder))]
    found, parents = [], {pid}
    while parents:
        children = [process for process in every if process.parent in parents]
        found += children
        parents = {process.pid for process in children}
    return found


def living(processes: Sequence[Process]) -> list[Process]:
    """Those that still run, half a minute later at most: a kernel takes its time."""
    ends = time.monotonic() + 30
    while True:
        left = [process for process in processes if Process.read(Path(f"/proc/{process.pid}")) == process]
        if not left or time.monotonic() > ends:
            return left
        time.sleep(0.01)


def test_hosts_have_names_of_their_own(hosts: EmulatedHosts) -> None:
    assert [on(hosts, node, "hostname").strip() for node in (0, 1)] == ["node0", "node1"] == hosts.names
    assert socket.gethostname() not in hosts.names


def test_a_name_resolves_to_its_host(hosts: EmulatedHosts) -> None:
    for node in (0, 1):
        assert on(hosts, node, "getent", "hosts", "node1").split() == [hosts.addresses[1], "node1"]


def test_dev_shm_is_a_hosts_own(hosts: EmulatedHosts) -> None:
    on(hosts, 0, "touch", "/dev/shm/here")
    assert "here" in on(hosts, 0, "ls", "/dev/shm").split()
    assert "here" not in on(hosts, 1, "ls", "/dev/shm").split()
    assert not Path("/dev/shm/here").exists()


def test_a_command_runs_in_the_callers_folder_with_its_environment(
    hosts: EmulatedHosts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAID", "two words")
    assert on(hosts, 1, "sh", "-c", 'echo "$PWD $SAID"') == f"{tmp_path} two words\n"


def test_a_command_gives_its_exit_code(hosts: EmulatedHosts) -> None:
    assert subprocess.run(hosts.command(0, ["sh", "-c", "exit 7"]), check=False).returncode == 7


def test_what_is_started_to_stay_outlives_its_command(hosts: EmulatedHosts, tmp_path: Path) -> None:
    command = hosts.outlived_command(1, ["sh", "-c", "sleep 1000 > /dev/null & pwd; echo $!"], tmp_path)
    folder, pid = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True).stdout.split()
    assert folder == str(tmp_path)
    assert on(hosts, 0, "cat", f"/proc/{pid}/comm") == "sleep\n"
    hosts.kill(0)
    assert on(hosts, 0, "cat", f"/proc/{pid}/comm") == "sleep\n"
    hosts.kill(1)
    assert on(hosts, 1, "sh", "-c", f"cat /proc/{pid}/cmdline 2> /dev/null || true") == ""


def test_a_shared_folder_is_the_hosts_own(tmp_path: Path) -> None:
    with EmulatedHosts(2, None, shared=tmp_path) as hosts:
        on(hosts, 0, "sh", "-c", f"echo here > {tmp_path}/file")
        assert on(hosts, 1, "cat", f"{tmp_path}/file") == "here\n"
        assert hosts.path(1, tmp_path / "file").read_text() == "here\n"
        assert list(tmp_path.iterdir()) == []


def test_links_count_what_was_sent_and_its_headers(hosts: EmulatedHosts) -> None:
    size = 2_000_000
    before = hosts.link_bytes()
    to_node1(hosts, SEND, str(size))
    after = hosts.link_bytes()
    sent = after[0].sent - before[0].sent
    received = after[1].received - before[1].received
    for counted in (sent, received):
        assert size * 1.045 < counted <= size * HEADERS * 1.01  # a hundredth for what TCP sends again
    assert after[1].sent - before[1].sent < size * 0.05  # acknowledgements


def test_an_idle_link_carries_nothing(hosts: EmulatedHosts) -> None:
    before = hosts.link_bytes()
    on(hosts, 0, "true")
    assert hosts.link_bytes() == before


def test_links_have_the_rate_in_both_directions() -> None:
    with EmulatedHosts(1, RATE) as hosts:
        own = "tc qdisc show dev eth0"
        port = ["nsenter", "--target", "1", "--net", "tc", "qdisc", "show", "dev", "port0"]
        for rate, shown in ((RATE, "rate 100Mbit"), (2.5e9, "rate 2500Mbit")):
            hosts.set_rate(rate)
            assert shown in on(hosts, 0, *own.split())
            assert shown in on(hosts, 0, *port)
        hosts.set_rate(None)
        assert "tbf" not in on(hosts, 0, *own.split()) + on(hosts, 0, *port)
        hosts.set_rate(None)


@needs_a_delay
def test_a_round_trip_takes_at_least_its_time() -> None:
    with EmulatedHosts(2, None, round_trip_s=0.04) as hosts:
        took_s = [float(line) for line in to_node1(hosts, ASK).split()]
    assert len(took_s) == 3
    assert min(took_s) >= 0.04


@needs_a_delay
def test_a_delayed_link_loses_nothing() -> None:
    size = 1_000_000
    with EmulatedHosts(2, RATE, round_trip_s=0.004) as hosts:
        to_node1(hosts, SEND, str(size))
        assert size < hosts.link_bytes()[1].received <= size * HEADERS * 1.01


@pytest.mark.parametrize(
    ("node_order", "expected"),
    [("node by node", "0:node0 1:node0 2:node1 3:node1"), ("round-robin", "0:node0 1:node1 2:node0 3:node1")],
)
def test_mpirun_makes_one_world_of_all_hosts(hosts: EmulatedHosts, node_order: str, expected: str) -> None:
    program = """
from mpi4py import MPI
import os, socket
places = MPI.COMM_WORLD.gather(f"{MPI.COMM_WORLD.rank}:{socket.gethostname()}")
words = MPI.COMM_WORLD.gather(os.environ["SAID"])
if places:
    print(" ".join(places), set(words))
"""
    command = mpirun_command(
        hosts,
        2,
        [sys.executable, "-c", program],
        environment={"SAID": "two words"},
        node_order=node_order,  # type: ignore[arg-type]
    )
    done = subprocess.run(
        command, env=local.environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.stdout, done.stderr) == (f"{expected} {{'two words'}}\n", "")


def test_an_mpirun_that_is_killed_takes_its_ranks_along(hosts: EmulatedHosts) -> None:
    program = "from mpi4py import MPI; import os, time; os.write(1, b'x'); time.sleep(1000)"
    for _ in range(2):  # the second one meets what the first left
        running = subprocess.Popen(
            mpirun_command(hosts, 2, [sys.executable, "-c", program]), env=local.environment(), stdout=subprocess.PIPE
        )
        with running:
            try:
                assert running.stdout is not None
                assert running.stdout.read(4) == b"xxxx"
                started = descendants(running.pid)
            finally:
                running.kill()
        assert len(started) > 4
        assert living(started) == []


HOLDING = """
import subprocess, sys
from bench.emulated_hosts import EmulatedHosts
with EmulatedHosts(2, 1e8, round_trip_s=float(sys.argv[1])) as hosts:
    running = subprocess.Popen(hosts.command(1, ["sh", "-c", "echo here; exec sleep 1000"]), stdout=subprocess.PIPE)
    print(running.stdout.readline().decode(), end="", flush=True)
    sys.stdin.readline()
    raise SystemExit(3)
"""


@pytest.mark.parametrize("how", ["SystemExit", "SIGTERM", "SIGINT", "SIGKILL"])
def test_nothing_is_left_however_the_holder_ends(how: str, repository: Path, tmp_path: Path) -> None:
    delay = "0" if missing(0.1) else "0.001"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDING, delay],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=repository,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    with holder:
        try:
            assert holder.stdin is not None
            assert holder.stdout is not None
            assert holder.stdout.readline() == "here\n"
            started = descendants(holder.pid)
            if how == "SystemExit":
                holder.stdin.write("\n")
                holder.stdin.flush()
            else:
                holder.send_signal(signal.Signals[how])
            holder.wait(LIMIT_S)
        finally:
            holder.kill()
    assert len(started) > 4
    assert living(started) == []
    assert list(tmp_path.iterdir()) == []


def test_an_error_inside_ends_the_hosts() -> None:
    earlier = descendants(os.getpid())
    started: list[Process] = []

    def fail() -> None:
        with EmulatedHosts(1, None):
            started.extend(process for process in descendants(os.getpid()) if process not in earlier)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(started) > 2
    assert living(started) == []


def test_two_sets_of_hosts_do_not_meet(hosts: EmulatedHosts) -> None:
    with EmulatedHosts(2, RATE) as others:
        before = others.link_bytes()
        to_node1(hosts, SEND, "100000")
        assert others.link_bytes() == before


def test_the_peers_send_what_their_algorithms_say(hosts: EmulatedHosts) -> None:
    size = 400_000
    # Rings of the 4 ranks and of the 2 hosts: 2 (n - 1) / n of the buffer.
    expected = {"Open MPI ring": 1.5, "Open MPI hierarchical ring": 1.0}
    peers = {name: mpi_peers.PEERS[name] for name in expected}
    rows = mpi_peers.measure(hosts, 2, [size], repeats=2, budget_s=10, peers=peers)
    assert [row.algorithm for row in rows] == list(expected)
    for row in rows:
        # Acknowledgements of what comes in are sent too, 66 bytes for one packet or two.
        share = expected[row.algorithm]
        assert row.link_bytes is not None
        assert share * 1.045 * size < row.link_bytes < share * (HEADERS + 66 / 1448) * 1.02 * size
        assert row.bound_s == pytest.approx(size * 8 / RATE)
        assert row.time_s > 0
        assert row.repeats == 2
