"""Hosts of a cluster on one machine, for measurements and tests that need a network between them.

A host is a set of Linux namespaces: network, host name, mounts (its own /dev/shm, its own /etc/hosts) and System V
memory, so Open MPI and everything else sees different machines. Each host has one link to a bridge, with a rate (tc
tbf, in both directions) and a delay (delay_wire.c). Files are shared, processors too: what a run costs in computing, it
costs here. A folder may be shared among the hosts alone.

All of it lives in one process namespace, the room, whose first process waits for the end of a pipe that this process
holds. However this process ends, the kernel closes the pipe and ends every process of every host, and the namespaces,
devices and temporary file systems go with their last process. Nothing has a name outside the room: no file is left
behind, and two rooms on one machine cannot meet.

Needs root, iproute2, a kernel with veth, bridge and tbf, and for a delay gcc and /dev/net/tun.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from pipeline.errors import UserError

INTERFACE = "eth0"
WIRE_SOURCE = Path(__file__).with_name("delay_wire.c")

PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
}
"""What is started here, and the Debian package that has it."""

LINKS_A_ROUND_TRIP = 4
"""A packet passes its sender's link and its receiver's, and so does the answer."""

QUEUE = "16mb"
"""A shaper's queue: deep enough that nothing is dropped, as on the lossless fabrics of clusters."""

PACKETS_A_BUNDLE = 44
"""The kernel hands packets over in bundles, of up to 64 KB unless told otherwise. Small ones share a link more evenly;
single ones would cost so much processor time that it, and not the link, would be measured."""

UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--net")

ROOM = """
read -r pid rest < /proc/self/stat  # this /proc is still the caller's, and so is the number
mount -t proc proc /proc && mount -t tmpfs room /dev/shm || exit 1
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 2> /dev/null  # no packets but those that were asked for
echo "$pid"
hosts=$1; host=$2; shared=$3; shift 3
[ -z "$shared" ] || mount -t tmpfs -o mode=755 room "$shared" || exit 1
for name in "$@"; do unshare --net --uts --ipc --mount sh -e -c "$host" host "$name" "$hosts" & done
exec 3<&0
cat <&3 > /dev/null &  # until the caller closes the pipe, or ends
wait $!  # and takes leave of processes that have lost their parents
"""

HOST = """
trap 'echo failed' EXIT
for of in all default; do echo 1 > /proc/sys/net/ipv6/conf/$of/disable_ipv6 || true; done 2> /dev/null
for control in cubic reno; do  # bbr paces: a message of 25 KB then takes 4 ms more at 10 ms round trip
    echo $control > /proc/sys/net/ipv4/tcp_congestion_control && break
done 2> /dev/null
hostname "$1" 2> /dev/null || echo "$1" > /proc/sys/kernel/hostname
mount -t tmpfs "$1" /dev/shm
echo "$2" > /dev/shm/hosts
mount --bind /dev/shm/hosts /etc/hosts
rm /dev/shm/hosts
echo "$1 $$"
exec sleep infinity
"""

KILL = """
killed=yes
while [ "$killed" ]; do  # until none is left that could have started another one
    killed=
    for process in /proc/[0-9]*; do
        pid=${process#/proc/}
        if [ "$pid" -ne "$1" ] && [ "$process/ns/net" -ef "/proc/$1/ns/net" ]; then
            kill -KILL "$pid" 2> /dev/null && killed=yes
        fi
    done
done
true
"""
"""Ends all processes of a host but $1, its first one."""

WIRE = "/dev/shm/delay_wire"  # noqa: S108 - the room's own, too
AGENT = "/dev/shm/launch-agent"  # noqa: S108 - each host has a /dev/shm of its own
"""On every host: `launch-agent HOST COMMAND...` runs a command on another one, as ssh would."""

SESSION = """
TMPDIR=$(mktemp -d /dev/shm/mpirun.XXXXXX) && export TMPDIR OMPI_MCA_btl_sm_backing_directory="$TMPDIR" &&
    unset PRTE_MCA_prte_tmpdir_base && exec "$@"
"""
"""Gives an mpirun folders of its own: process ids repeat in namespaces, and a killed one leaves its sockets."""


@dataclass(frozen=True)
class LinkBytes:
    """What passed a host's link so far, with all headers."""

    sent: int
    received: int


class EmulatedHosts:
    """`with EmulatedHosts(4, 100e6) as hosts:` is four hosts, each on a link of 100 Mbit/s in both directions.

    nodes: how many hosts. rate_bit_per_s: of each link and direction; None does not shape. round_trip_s: what a small
    packet between two hosts and its answer take, a quarter of it on each of the four links they pass. shared: a folder
    that is empty here and holds, on all hosts, what they write there; in memory, and gone with them.

    Entering raises UserError where the machine lacks something.
    """

    interface = INTERFACE

    def __init__(
        self, nodes: int, rate_bit_per_s: float | None, *, round_trip_s: float = 0.0, shared: Path | None = None
    ) -> None:
        if nodes < 1 or (rate_bit_per_s is not None and rate_bit_per_s < 1) or round_trip_s < 0:
            raise UserError(
                f"{nodes} hosts with {rate_bit_per_s} bit/s and a round trip of {round_trip_s} s are no network; "
                "give at least one host, a rate above 0 or none, and a time of 0 or more"
            )
        self.nodes = nodes
        self.names = [f"node{node}" for node in range(nodes)]
        self.addresses = [f"10.77.{number // 256}.{number % 256}" for number in range(1, nodes + 1)]
        self.rate_bit_per_s = rate_bit_per_s
        self.round_trip_s = round_trip_s
        self.shared = shared.resolve() if shared else None
        self._room: subprocess.Popen[str] | None = None
        self._shaped = False
        self._room_pid = 0
        """Of the room's first process, as this process sees it."""
        self._pids: list[int] = []
        """Of each host's first process, as the room sees it."""

    def __enter__(self) -> Self:
        lacking = missing(self.round_trip_s)
        if lacking:
            raise UserError(f"hosts cannot be emulated here: {lacking}")
        try:
            self._start()
            self._link()
            self.set_rate(self.rate_bit_per_s)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process of every host; returns when the last one is gone."""
        room, self._room = self._room, None
        if room is None:
            return
        self._pids, self._shaped = [], False  # the numbers will be other processes'
        assert room.stdin is not None, "it is a pipe"
        room.stdin.close()
        try:
            room.wait(timeout=10)
        except subprocess.TimeoutExpired:
            room.kill()  # takes the room's first process along
            room.wait()
        for pipe in (room.stdout, room.stderr):
            assert pipe is not None, "it is a pipe"
            pipe.close()

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` on host `node`, in this working directory and the caller's environment.

        A signal that ends the process started so ends the command at once, by KILL, with all that it has started on any
        host: a process namespace of their own sees to that.
        """
        alone = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", '"$@"; exit $?', "sh"]
        return self._in_room([*alone, *self._enter(node, Path.cwd()), *command])

    def outlived_command(self, node: int, command: Sequence[str], folder: Path) -> list[str]:
        """The command line that runs `command` on host `node` in `folder`, with the caller's environment.

        What the command starts may outlive it, as a daemon does, and ends with the hosts.
        """
        return self._in_room([*self._enter(node, folder), *command])

    def kill(self, node: int) -> None:
        """End every process of host `node` by KILL, as its crash would; the host and its files stay."""
        self._run(["sh", "-c", KILL, "sh", str(self._pids[node])])

    def cut(self, node: int) -> None:
        """Pull the cable of host `node`: nothing that is sent arrives any more, and nobody is told."""
        self._configure(1, "ip", [f"link set port{node} down"])

    def mend(self, node: int) -> None:
        """Plug it in again."""
        self._configure(1, "ip", [f"link set port{node} up"])

    def path(self, node: int, path: Path) -> Path:
        """Where this process finds what host `node` has at the absolute `path`."""
        return Path(f"/proc/{self._room_pid}/root/proc/{self._pids[node]}/root{path}")

    def link_bytes(self) -> list[LinkBytes]:
        """What each host has sent and received over its link so far."""
        found = []
        for node, pid in enumerate(self._pids):
            sent = self._run(["nsenter", "--target", str(pid), "--net", *counters(INTERFACE)])
            received = self._run(["nsenter", "--target", "1", "--net", *counters(f"port{node}")])
            found.append(LinkBytes(counted(sent), counted(received)))
        return found

    def set_rate(self, rate_bit_per_s: float | None) -> None:
        """Give every link this rate in both directions; None takes the shapers away."""
        if rate_bit_per_s is not None or self._shaped:
            self._configure(1, "tc", [shaper(f"port{node}", rate_bit_per_s) for node in range(self.nodes)])
            for pid in self._pids:
                self._configure(pid, "tc", [shaper(INTERFACE, rate_bit_per_s)])
        for pid in self._pids:
            self._configure(pid, "ip", [f"link set {INTERFACE} gso_max_segs {PACKETS_A_BUNDLE}"])
        self._shaped = rate_bit_per_s is not None
        self.rate_bit_per_s = rate_bit_per_s

    def _start(self) -> None:
        """Start the room and the hosts, with no network yet."""
        hosts = hosts_file(self.names, self.addresses)
        self._room = subprocess.Popen(
            [*UNSHARE, "sh", "-c", ROOM, "room", hosts, HOST, str(self.shared or ""), *self.names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches us alone, and we close in good order
        )
        assert self._room.stdout is not None, "it is a pipe"
        said = [self._room.stdout.readline().split() for _ in range(1 + self.nodes)]
        if [] in said or ["failed"] in said:
            raise UserError(f"hosts cannot be emulated here: {self._last_words()}")
        self._room_pid = int(said[0][0])
        pid_of = {name: int(pid) for name, pid in said[1:]}
        self._pids = [pid_of[name] for name in self.names]
        agent = launch_agent(dict(zip(self.names, self._pids, strict=True)))
        for node in range(self.nodes):
            path = self.path(node, Path(AGENT))
            path.write_text(agent)
            path.chmod(0o755)

    def _link(self) -> None:
        """Lay a link from every host to the bridge, which is in the room's own network namespace."""
        bridge = ["link add bridge0 type bridge mcast_snooping 0", "link set bridge0 addrgenmode none up"]
        if self.round_trip_s:
            self._compile_wire()
            for node in range(self.nodes):
                self._start_wire(node)
        else:
            ends = enumerate(self._pids)
            bridge += [f"link add port{node} type veth peer name {INTERFACE} netns {pid}" for node, pid in ends]
        bridge += [
            f"link set port{node} txqueuelen 10000 master bridge0 addrgenmode none up" for node in range(self.nodes)
        ]
        self._configure(1, "ip", bridge)
        for pid, address in zip(self._pids, self.addresses, strict=True):
            lines = ["link set lo up", f"address add {address}/16 dev {INTERFACE}"]
            self._configure(pid, "ip", [*lines, f"link set {INTERFACE} txqueuelen 10000 addrgenmode none up"])

    def _compile_wire(self) -> None:
        """Compile delay_wire.c into the room's own /dev/shm."""
        self._run(["env", "TMPDIR=/dev/shm", "gcc", "-O2", "-o", WIRE, str(WIRE_SOURCE)])

    def _start_wire(self, node: int) -> None:
        """Start the wire between a host and its port of the bridge; it ends with the room."""
        delay_ns = round(self.round_trip_s / LINKS_A_ROUND_TRIP * 1e9)
        ends = [f"/proc/{self._pids[node]}/ns/net", INTERFACE, "/proc/1/ns/net", f"port{node}", str(delay_ns)]
        self._run([WIRE, *ends])

    def _configure(self, pid: int, program: str, lines: Sequence[str]) -> None:
        """Give lines to `ip` or `tc` in the network namespace of a process of the room."""
        self._run(["nsenter", "--target", str(pid), "--net", program, "-batch", "-"], "\n".join(lines) + "\n")

    def _run(self, command: Sequence[str], words: str = "") -> str:
        """Run a command in the room; what it printed. Raises UserError with what it said where it failed."""
        done = subprocess.run(self._in_room(command), input=words, capture_output=True, text=True, check=False)
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split())
            raise UserError(
                f"hosts cannot be emulated here: `{' '.join(command)}` ended with {done.returncode}: {said}"
            )
        return done.stdout

    def _enter(self, node: int, folder: Path) -> list[str]:
        namespaces = ["--net", "--uts", "--ipc", "--mount"]
        return ["nsenter", "--target", str(self._pids[node]), *namespaces, "--", "env", f"--chdir={folder}"]

    def _in_room(self, command: Sequence[str]) -> list[str]:
        enter = ["nsenter", "--target", str(self._room_pid), "--pid", "--mount", "--"]
        return [*enter, "setpriv", "--pdeathsig", "KILL", *command]

    def _last_words(self) -> str:
        """What the room's processes said on standard error, when they are to end."""
        room = self._room
        assert room is not None, "it was started"
        room.kill()
        assert room.stderr is not None, "it is a pipe"
        return " ".join(room.stderr.read().split())


def mpirun_command(
    hosts: EmulatedHosts,
    workers_per_node: int,
    command: Sequence[str],
    *,
    mca: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    node_order: Literal["node by node", "round-robin"] = "node by node",
) -> list[str]:
    """mpirun of `command` on all hosts, with Open MPI's own daemon on each.

    mca: parameters of Open MPI. environment: variables of the ranks, beside what mpirun inherits.
    node_order: "node by node" puts ranks 0 to workers_per_node - 1 on the first host, and so on; "round-robin" deals
    them out, as a careless host file does.

    mpirun runs on the first host. TMPDIR of all ranks is in the host's own /dev/shm and goes with the host.
    """
    words = mpirun_words(hosts, workers_per_node, command, mca=mca, environment=environment, node_order=node_order)
    return hosts.command(0, words)


def mpirun_words(
    hosts: EmulatedHosts,
    workers_per_node: int,
    command: Sequence[str],
    *,
    mca: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    node_order: Literal["node by node", "round-robin"] = "node by node",
) -> list[str]:
    """What `mpirun_command` runs on the first host."""
    mpirun = Path(sys.executable).with_name("mpirun")
    parameters = {
        "btl": "self,sm,tcp",
        "pml": "ob1",
        "btl_tcp_if_include": hosts.interface,
        "mpi_yield_when_idle": "1",  # many ranks on few cores
        "osc": "^ucx",  # silences a harmless line of the Open MPI wheel
        **(mca or {}),
    }
    mapping = f"ppr:{workers_per_node}:node" if node_order == "node by node" else "node"
    return [
        "sh", "-c", SESSION, "sh",
        str(mpirun), "--allow-run-as-root", "-n", str(hosts.nodes * workers_per_node),
        "--host", ",".join(f"{name}:{workers_per_node}" for name in hosts.names),
        "--map-by", f"{mapping}:OVERSUBSCRIBE", "--bind-to", "none",
        "--output", ":raw",
        "--prtemca", "plm_ssh_agent", AGENT,
        "--prtemca", "prte_if_include", hosts.interface,
        *(word for name, value in parameters.items() for word in ("--mca", name, value)),
        *(word for name, value in (environment or {}).items() for word in ("-x", f"{name}={value}")),
        *command,
    ]  # fmt: skip


def missing(round_trip_s: float) -> str:
    """What this machine lacks for emulated hosts, and what would be right; empty when nothing does."""
    if not sys.platform.startswith("linux"):
        return f"namespaces need Linux, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "root is needed; run it with sudo, or in a privileged container"
    packages = PACKAGES | ({"gcc": "gcc"} if round_trip_s else {})
    absent = [program for program in packages if shutil.which(program) is None]
    if absent:
        needed = " ".join(sorted({packages[program] for program in absent}))
        return f"{', '.join(absent)} not found; install with: apt-get install {needed}"
    if round_trip_s and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun is absent, which a delay needs; load the kernel's tun module, or give no round trip"
    refused = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    if refused.returncode:
        return f"the kernel refuses namespaces ({' '.join(refused.stderr.split())}); a container must be privileged"
    return ""


def hosts_file(names: Sequence[str], addresses: Sequence[str]) -> str:
    """/etc/hosts of every host."""
    lines = [f"{address} {name}" for name, address in zip(names, addresses, strict=True)]
    return "\n".join(["127.0.0.1 localhost", *lines])


def shaper(device: str, rate_bit_per_s: float | None) -> str:
    """The line of tc that gives what leaves `device` a rate, or takes it away.

    A bucket holds 64 KiB, or 2 ms of a fast link: with less, a machine whose cores are all at work loses rate. So the
    first 64 KiB after a pause pass at once.
    """
    if rate_bit_per_s is None:
        return f"qdisc del dev {device} root"
    burst_bytes = max(64 * 1024, round(rate_bit_per_s / 8 * 2e-3))
    return f"qdisc replace dev {device} root tbf rate {rate_bit_per_s:.0f}bit burst {burst_bytes} limit {QUEUE}"


def counters(interface: str) -> list[str]:
    """The command that prints what left an interface by its shaper."""
    return ["tc", "-s", "-j", "qdisc", "show", "dev", interface]


def counted(words: str) -> int:
    """The bytes in what `counters` printed: the shaper counts every packet of a bundle with its headers, which the
    interface's own counter does not. 0 where nothing shapes.
    """
    return sum(entry["bytes"] for entry in json.loads(words or "[]") if entry["kind"] == "tbf")


def sent_from_here(interface: str) -> int:
    """What this host has sent over its link so far, from a process on it: by the shaper where there is one."""
    if shutil.which("tc") is not None:
        shaped = counted(subprocess.run(counters(interface), capture_output=True, text=True, check=False).stdout)
        if shaped:
            return shaped
    lines = Path("/proc/self/net/dev").read_text().splitlines()
    words = next((line.split() for line in lines if line.split()[0] == f"{interface}:"), None)
    if words is None:
        raise UserError(f"there is no interface {interface} here; name one that `ip link` lists")
    return int(words[9])


def launch_agent(pids: Mapping[str, int]) -> str:
    """A shell script that runs a command on another host, as mpirun asks ssh to; pids: a process of each host."""
    cases = "\n".join(f"    {name}) pid={pid} ;;" for name, pid in pids.items())
    return f"""#!/bin/sh
# HOST COMMAND...
case $1 in
{cases}
    *) echo "launch-agent: no host $1" >&2; exit 1 ;;
esac
shift
exec nsenter --target "$pid" --net --uts --ipc --mount -- sh -c 'mkdir -p "$TMPDIR"; eval "$@"' sh "$@"
"""
