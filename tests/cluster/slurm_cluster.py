"""A real SLURM for tests, as Debian packages it: a controller, four nodes with GPUs, and a database of past jobs.

Jobs of the partition `high` have those of `main` requeued where they need their nodes.
"""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.cluster.scheduler_hosts import HEAD, JOB_ENVIRONMENT, OWN_FOLDER, SchedulerHosts

GPUS_A_NODE = 4

ACCOUNTING = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={head}
AccountingStoragePass={folder}/munge/socket
AccountingStorageTRES=gres/gpu
"""

CONTROLLER = """
ClusterName=test
SlurmctldHost={head}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits until the credential that it was started with has expired.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdSpoolDir={own}/slurmd
SlurmdPidFile={own}/slurmd.pid
SlurmdLogFile={folder}/log/slurmd-%n
SlurmdParameters=config_overrides
# PMIx puts a socket there whose name tells the step, but not the node.
TmpFS={own}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
TaskProlog={folder}/task-prolog
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=5
MinJobAge=3600
OverTimeLimit=0
SlurmdTimeout=10
# A node that is gone is asked this long before its job can be requeued.
MessageTimeout=5
GresTypes=gpu
{accounting}
NodeName=DEFAULT Sockets=1 CoresPerSocket={slots} ThreadsPerCore=1 RealMemory=20000 Gres=gpu:{gpus}
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=1-00:00:00 DefaultTime=10 State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=ALL MaxTime=1-00:00:00 DefaultTime=10 State=UP PriorityTier=10
"""

DATABASE_DAEMON = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost={head}
SlurmUser=root
LogFile={folder}/log/slurmdbd
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
"""


CGROUP = "CgroupPlugin=cgroup/v1\n"
"""Nothing here uses control groups, but SLURM looks for those of systemd unless told which there are."""

TASK_PROLOG = "\n".join(["#!/bin/sh", *(f"echo export {name}={value}" for name, value in JOB_ENVIRONMENT.items())])
"""Variables of batch scripts and of srun's tasks, whatever they were submitted with."""


class SlurmCluster(SchedulerHosts):
    """accounting: with a database, from which sacct and sacctmgr answer; without, they know nothing."""

    programs: ClassVar[Mapping[str, str]] = {
        "sbin/munged": "munge",
        "lib/*/pmix2/lib/libpmix.so": "libpmix-dev",  # the name without a number is what `srun --mpi=pmix` opens
        "sbin/slurmctld": "slurm-wlm",
        "sbin/slurmd": "slurm-wlm",
        "bin/sbatch": "slurm-wlm",
        "sbin/slurmdbd": "slurmdbd",
        "lib/*/slurm-wlm/accounting_storage_mysql.so": "slurm-wlm-mysql-plugin",
        "sbin/mariadbd": "mariadb-server",
        "bin/mariadb-install-db": "mariadb-server",
    }

    def __init__(self, folder: Path, *, nodes: int = 4, slots: int = 4, accounting: bool = True) -> None:
        super().__init__(folder, nodes=nodes, slots=slots)
        self.accounting = accounting

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": f"{self.folder}/slurm.conf"}

    def start(self) -> None:
        self._configure()
        self._start_munge()
        if self.accounting:
            self._start_database()
        self.start_daemons([HEAD], ["slurmctld"])
        self.start_daemons(range(1, self.hosts.nodes), ["slurmd"])
        self.wait_until("all nodes are idle", lambda: self._idle() == set(self.node_names))

    def kill_daemon(self, node: int) -> None:
        """As for all schedulers; SLURM learns of it at once, as from a site's monitor, and not by its own time-out."""
        super().kill_daemon(node)
        self.run(["scontrol", "update", f"NodeName={self.node_names[node]}", "State=DOWN", "Reason=crashed"])

    def restart_daemon(self, node: int) -> None:
        self.start_daemons([1 + node], ["slurmd"])
        self.wait_until(f"{self.node_names[node]} is idle", lambda: self.node_names[node] in self._idle())

    def _configure(self) -> None:
        names = {"head": self.head_name, "folder": self.folder, "own": OWN_FOLDER}
        accounting = ACCOUNTING.format(**names) if self.accounting else "AccountingStorageType=accounting_storage/none"
        nodes = "\n".join(f"NodeName={name}" for name in self.node_names)
        sizes = {"slots": self.slots, "gpus": GPUS_A_NODE}
        self.put("slurm.conf", CONTROLLER.format(**names, **sizes, accounting=accounting, nodes=nodes))
        gpus = f"Name=gpu File={self.folder}/gpu[0-{GPUS_A_NODE - 1}]"
        self.put(
            "gres.conf", "\n".join(["AutoDetect=off", *(f"NodeName={name} {gpus}" for name in self.node_names), ""])
        )
        self.put("cgroup.conf", CGROUP)
        self.put("task-prolog", TASK_PROLOG, 0o755)
        for gpu in range(GPUS_A_NODE):  # SLURM wants a device for each
            self.link(f"gpu{gpu}", Path("/dev/null"))

    def _start_munge(self) -> None:
        """Start what signs messages; all hosts reach its one socket."""
        folder = self.put("munge/key", secrets.token_hex(512), 0o400).parent
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
        words = [f"--{option}={folder / name}" for option, name in files.items()]
        self.start_daemons([HEAD], ["munged", "--force", f"--log-file={self.folder}/log/munged", *words])

    def _start_database(self) -> None:
        """Start MariaDB and SLURM's daemon in front of it; sizes are those of a small database."""
        folder = self.folder / "database"
        socket = folder / "socket"
        data = ["--no-defaults", "--user=root", f"--datadir={folder}", "--innodb-log-file-size=8M"]
        access = ["--auth-root-authentication-method=socket", "--skip-test-db"]
        self.start_daemons([HEAD], ["mariadb-install-db", *data, *access])
        place = [f"--socket={socket}", f"--tmpdir={folder}", f"--pid-file={folder}/pid", "--skip-networking"]
        as_slurm_asks = ["--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900"]
        mariadb = ["mariadbd", *data, *place, *as_slurm_asks]
        self.start_daemons([HEAD], mariadb, background=True)
        self.wait_until("MariaDB answers", self.hosts.path(HEAD, socket).exists)
        self.put("slurmdbd.conf", DATABASE_DAEMON.format(head=self.head_name, folder=self.folder), 0o600)
        self.start_daemons([HEAD], ["slurmdbd"], env={"MYSQL_UNIX_PORT": str(socket)})
        add = ["sacctmgr", "--immediate", "add", "cluster", "test"]
        self.wait_until("slurmdbd knows the cluster", lambda: self.run(add, check=False).returncode == 0)

    def _idle(self) -> set[str]:
        """Nodes that can have jobs now."""
        return set(self.run(["sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N"], check=False).stdout.split())
