"""A real Grid Engine for tests, as Debian packages it: a master, four nodes, and what ABCI has added.

ABCI's own, and how it is had here:
- `qsub -l rt_F=2`, two whole nodes: a verifier of submissions (JSV) asks for the parallel environment that gives every
  node's slots instead.
- `qsub -g GROUP`: a qsub in front of the real one writes the group into the job's account.
- SGE_LOCALDIR, SGE_JOB_HOSTLIST: the queue's starter method sets them, for a job's script and for what `qrsh -inherit`
  starts. The folder is the one that Grid Engine makes for a job on each of its hosts, in the host's own memory; the
  list is in it, on the host of the job's script.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.cluster.scheduler_hosts import HEAD, JOB_ENVIRONMENT, OWN_FOLDER, SchedulerHosts, search_path

GPUS_A_NODE = 4

INSTALLED = Path("/var/lib/gridengine")
"""SGE_ROOT of the packages. It belongs to this machine, and only its programs are used."""

BOOTSTRAP = """\
admin_user              none
default_domain          none
ignore_fqdn             false
spooling_method         berkeleydb
spooling_lib            libspoolb
spooling_params         {folder}/spool
binary_path             /usr/sbin
qmaster_spool_dir       {folder}/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
"""

SETTINGS = {
    "execd_spool_dir": f"{OWN_FOLDER}/execd",
    "execd_params": "INHERIT_ENV=false",  # no variable of the daemon gets into a job
    "min_uid": "0",
    "min_gid": "0",
    "load_report_time": "00:00:01",
    # A host that is not heard of for so long is unknown, and its jobs start elsewhere after so long.
    "max_unheard": "00:00:08",
    "reschedule_unknown": "00:00:02",
    "qmaster_params": "ENABLE_RESCHEDULE_KILL=true,ENABLE_RESCHEDULE_SLAVE=true",
    "reporting_params": "accounting=true reporting=false flush_time=00:00:01 accounting_flush_time=00:00:00 "
    "joblog=false sharelog=00:00:00",
    "administrator_mail": "none",
    "mailer": "/bin/true",
}
"""What is not as in Debian's configuration."""

NO_DAEMON = {"SGE_ND": "1"}
"""Keeps a daemon from going to the background by itself, which takes it a second and, rarely, for ever."""

SCHEDULER = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
"""When the scheduler looks, in seconds."""

SPOOL = """
export PATH="/usr/lib/gridengine:$PATH"
mkdir -p log spool qmaster/job_scripts
spoolinit berkeleydb libspoolb "$PWD/spool" init
spooldefaults configuration configuration
spooldefaults complexes complexes
spooldefaults usersets /usr/share/gridengine/util/resources/usersets
spooldefaults managers root
for kind in adminhosts submithosts exechosts pes; do spooldefaults $kind $kind; done
"""
"""Writes the configuration, before the master reads it: that takes a tenth of the time of asking the master."""

EXECUTION_HOST = """\
hostname {name}
load_scaling NONE
complex_values {complex_values}
user_lists NONE
xuser_lists NONE
projects NONE
xprojects NONE
usage_scaling NONE
report_variables NONE
"""

COMPLEX = """\
name {name}
shortcut {name}
type INT
relop <=
requestable YES
consumable YES
default 0
urgency 0
"""

PARALLEL_ENVIRONMENT = """\
pe_name {name}
slots 9999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule {rule}
control_slaves TRUE
job_is_first_task FALSE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""

QUEUE = """\
qname main.q
hostlist {hosts}
seq_no 0
load_thresholds NONE
suspend_thresholds NONE
nsuspend 1
suspend_interval 00:05:00
priority 0
min_cpu_interval 00:05:00
processors UNDEFINED
qtype BATCH INTERACTIVE
ckpt_list NONE
pe_list {environments}
rerun TRUE
slots {slots}
tmpdir {own}
shell /bin/bash
prolog NONE
epilog NONE
shell_start_mode unix_behavior
starter_method {folder}/starter
suspend_method NONE
resume_method NONE
terminate_method NONE
notify 00:00:10
owner_list NONE
user_lists NONE
xuser_lists NONE
subordinate_list NONE
complex_values NONE
projects NONE
xprojects NONE
calendar NONE
initial_state default
"""

LIMITS = ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")
"""What a queue may limit, softly and hard."""

STARTER = """\
#!/bin/sh
export {variables} TMPDIR="$TMP" SGE_LOCALDIR="$TMP"
if [ -r "$PE_HOSTFILE" ]; then
    SGE_JOB_HOSTLIST="$TMP/hosts" && export SGE_JOB_HOSTLIST && cut -d " " -f 1 "$PE_HOSTFILE" > "$SGE_JOB_HOSTLIST"
fi
[ "$JOB_SCRIPT" != QRSH ] || exec /bin/bash -c "$*"  # as without a starter: no quotes survive
exec "$@"
"""

VERIFIER = """\
#!/bin/bash
jsv_on_start() {{
    return
}}
jsv_on_verify() {{
    nodes=$(jsv_sub_get_param l_hard rt_F)
    if [ -z "$nodes" ]; then
        jsv_accept
    else
        jsv_sub_del_param l_hard rt_F
        jsv_set_param pe_name perhost{slots}
        jsv_set_param pe_min $((nodes * {slots}))
        jsv_set_param pe_max $((nodes * {slots}))
        jsv_correct
    fi
}}
. "$SGE_ROOT/util/resources/jsv/jsv_include.sh"
jsv_main
"""

QSUB = """\
#!/bin/sh
for word; do
    shift
    [ "$word" != -g ] || word=-A
    set -- "$@" "$word"
done
exec /usr/bin/qsub "$@"
"""


class GridEngineCluster(SchedulerHosts):
    """Its parallel environments: `mpi` fills one node after another, `perhost4` gives four slots of each node.

    A job of a node that is lost runs again, or ends where it must not, 10 to 30 s later.
    """

    programs: ClassVar[Mapping[str, str]] = {
        "sbin/sge_qmaster": "gridengine-master",
        "sbin/sge_execd": "gridengine-exec",
        "bin/qsub": "gridengine-client",
    }

    @property
    def environment(self) -> dict[str, str]:
        return {"SGE_ROOT": f"{self.folder}/root", "SGE_CELL": "default", "PATH": f"{self.folder}/bin:{search_path()}"}

    def start(self) -> None:
        self._configure()
        self.run(["sh", "-e", "-c", SPOOL], cwd=self.folder)
        self.start_daemons([HEAD], ["sge_qmaster"], background=True, env=NO_DAEMON)
        self._configure_master()
        self.start_daemons(range(1, self.hosts.nodes), ["sge_execd"], background=True, env=NO_DAEMON)
        self.wait_until("all nodes take jobs", lambda: self._ready() == set(self.node_names))

    def restart_daemon(self, node: int) -> None:
        self.start_daemons([1 + node], ["sge_execd"], background=True, env=NO_DAEMON)
        self.wait_until(f"{self.node_names[node]} takes jobs", lambda: self.node_names[node] in self._ready())

    def _configure(self) -> None:
        """Write all that the daemons read."""
        for name in ("bin", "lib", "util", "utilbin"):
            self.link(f"root/{name}", INSTALLED / name)
        self.put("root/default/common/bootstrap", BOOTSTRAP.format(folder=self.folder))
        self.put("root/default/common/act_qmaster", self.head_name)
        self.put("root/default/common/sge_request", f"-jsv {self.folder}/verifier")
        self.link("log/sge_qmaster", Path("../qmaster/messages"))
        self.put("verifier", VERIFIER.format(slots=self.slots), 0o755)
        variables = " ".join(f"{name}={value}" for name, value in JOB_ENVIRONMENT.items() if name != "TMPDIR")
        self.put("starter", STARTER.format(variables=variables), 0o755)
        self.put("bin/qsub", QSUB, 0o755)
        self._configure_hosts()
        self._configure_queue()

    def _configure_hosts(self) -> None:
        """Write the global configuration and every host's."""
        installed = Path("/usr/share/gridengine/default-configuration").read_text().splitlines()
        kept = [line for line in installed if not line.startswith(("#", *SETTINGS))]
        changed = [f"{name} {value}" for name, value in SETTINGS.items()]
        self.put("configuration", "\n".join([*kept, *changed, ""]))
        for name in ("rt_F", "gpu"):
            self.put(f"complexes/{name}", COMPLEX.format(name=name))
        for file in Path("/usr/share/gridengine/util/resources/centry").iterdir():
            self.put(f"complexes/{file.name}", file.read_text())
        for name in self.hosts.names:
            self.put(f"adminhosts/{name}", f"hostname {name}\n")
            self.put(f"submithosts/{name}", f"hostname {name}\n")
        for name in self.node_names:
            values = f"rt_F=1,gpu={GPUS_A_NODE},slots={self.slots}"
            self.put(f"exechosts/{name}", EXECUTION_HOST.format(name=name, complex_values=values))

    def _configure_queue(self) -> None:
        environments = {"mpi": "$fill_up", f"perhost{self.slots}": str(self.slots)}
        for name, rule in environments.items():
            self.put(f"pes/{name}", PARALLEL_ENVIRONMENT.format(name=name, rule=rule))
        names = {"hosts": " ".join(self.node_names), "environments": " ".join(environments)}
        queue = QUEUE.format(**names, slots=self.slots, own=OWN_FOLDER, folder=self.folder)
        limits = [f"{kind}_{name} INFINITY" for name in LIMITS for kind in "sh"]
        self.put("queue", "\n".join([queue.strip(), *limits, ""]))

    def _configure_master(self) -> None:
        """Tell the master what it does not read from files: when the scheduler looks, and the queue."""
        ask = ["qconf", "-ssconf"]
        self.wait_until("the master answers", lambda: self.run(ask, check=False).returncode == 0)
        lines = self.run(ask).stdout.splitlines()
        kept = [line for line in lines if not line.startswith(tuple(SCHEDULER))]
        path = self.put("scheduler", "\n".join([*kept, *(f"{name} {value}" for name, value in SCHEDULER.items()), ""]))
        self.run(["qconf", "-Msconf", str(path)])
        self.run(["qconf", "-Aq", str(self.folder / "queue")])

    def _ready(self) -> set[str]:
        """Nodes whose queue takes jobs: their load is known, and the queue is in no state that forbids it."""
        rows = [line.split() for line in self.run(["qstat", "-f"], check=False).stdout.splitlines()]
        rows = [row for row in rows if row and row[0].startswith("main.q@")]
        return {row[0].partition("@")[2] for row in rows if len(row) == 5 and row[3] != "-NA-"}
