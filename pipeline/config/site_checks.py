"""The checks of a site and its container: what could not be asked of a scheduler, and what must not stand in a script.

Torch-free.
"""

import re

from pipeline.config.choices import one_of
from pipeline.config.secrets import SECRET, named
from pipeline.config.site import ContainerConfig, SiteConfig
from pipeline.config.wall_time import AUTO, seconds
from pipeline.errors import UserError

SCHEDULERS = ("local", "slurm", "pbs", "gridengine")
LAUNCHERS = ("mpirun", "srun")
BINDINGS = ("none", "numa", "core")
REQUEUE = ("in_job", "chain")
CONTAINERS = ("none", "apptainer", "singularity", "docker")

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORD = re.compile(r"[A-Za-z0-9_.,:@%+=/][A-Za-z0-9_.,:@%+=/-]*")
"""What a scheduler takes as one plain word, with nothing that a shell or its own parser would read otherwise."""

PATH_OF_A_LAUNCHER = re.compile(r"[A-Za-z0-9_./+@%:=,][A-Za-z0-9_./+@%:=,-]*")
EXPANDED = re.compile(r'[$`"\\\x00-\x1f\x7f]')
"""What a shell reads in double quotes, or what would end its line."""

OURS = {
    "slurm": (
        "--array", "-a", "--nodes", "-N", "--ntasks", "-n", "--ntasks-per-node", "--time", "-t", "--output", "-o",
        "--error", "-e", "--job-name", "-J", "--dependency", "-d", "--export", "--wrap", "--wait", "-W", "--parsable",
        "--test-only",
    ),
    "pbs": ("-J", "-o", "-e", "-j", "-N", "-I", "-V", "-z", "-f"),
    "gridengine": ("-t", "-o", "-e", "-j", "-N", "-V", "-pe", "-sync", "-hold_jid", "-terse", "-b", "-now"),
}  # fmt: skip
"""Options that a job of ours has by itself, or that would take it from the run folder's hands."""

LAUNCHERS_OWN = ("SLURM_", "PMIX_", "PMI_", "OMPI_COMM_", "PRTE_", "PBS_", "TORUS224_", "SGE_")
"""What launchers and the job script set by themselves."""


def check_site(site: SiteConfig, container: ContainerConfig) -> None:
    """Raise UserError for the first thing that no job could be made of."""
    _check_choices(site, container)
    _check_words(site)
    _check_variables(site)
    _check_numbers(site)
    _check_container(site, container)
    _check_options(site, container)
    _check_launcher(site)
    if site.wall_time != AUTO:
        check_wall_time(site)


def _check_choices(site: SiteConfig, container: ContainerConfig) -> None:
    one_of("site.scheduler", site.scheduler, SCHEDULERS)
    one_of("site.launcher", site.launcher, LAUNCHERS)
    one_of("site.binding", site.binding, BINDINGS)
    one_of("site.requeue.how", site.requeue.how, REQUEUE)
    one_of("container.name", container.name, CONTAINERS)
    if site.launcher == "srun" and site.scheduler != "slurm":
        raise UserError(f"site.launcher=srun needs site.scheduler=slurm, and it is {site.scheduler}; take mpirun")
    if site.scheduler != "local" and site.workers_per_node is None:
        raise UserError("site.workers_per_node is null; a job needs the number of GPUs, one worker each, of a node")
    if site.requeue.how == "chain" and site.scheduler == "local":
        raise UserError("site.requeue.how=chain: there is no scheduler here to chain jobs; take in_job")


def _check_words(site: SiteConfig) -> None:
    words = {
        "site.account": site.account,
        "site.queue": site.queue,
        "site.reservation": site.reservation,
        "site.node_resource": site.node_resource,
        "site.parallel_environment": site.parallel_environment,
        "site.interface": site.interface,
        **{f"site.cards[{place}]": card for place, card in enumerate(site.cards)},
    }
    for key, word in words.items():
        if word is not None and not WORD.fullmatch(word):
            raise UserError(f"{key}={shown(word)}: a scheduler takes letters, digits and _.,:@%+=/- here")
    if site.account_option is not None and not re.fullmatch(r"--?[A-Za-z][A-Za-z-]*", site.account_option):
        raise UserError(f"site.account_option={shown(site.account_option)}: an option, as -P or --account")
    if not re.fullmatch(r"[A-Za-z0-9_.-]*", site.host_suffix):
        raise UserError(f"site.host_suffix={shown(site.host_suffix)}: the end of a host's name, as .cluster.example")
    for place, directive in enumerate(site.extra_directives):
        if is_ours(directive, site.scheduler):
            raise UserError(
                f"site.extra_directives[{place}]={shown(directive)}: the job's own options say that already; nodes, "
                "wall time, arrays, output and dependencies follow from the run and its site"
            )
        if not directive.startswith("-") or not directive.isprintable() or len(directive) > 1000:
            raise UserError(
                f"site.extra_directives[{place}]={shown(directive)}: one option of the scheduler, on one line, as "
                "--constraint=h200"
            )


def _check_options(site: SiteConfig, container: ContainerConfig) -> None:
    options = {
        "site.extra_directives": site.extra_directives,
        "site.launcher_options": site.launcher_options,
        "container.options": container.options,
    }
    for key, words in options.items():
        for place, word in enumerate(words):
            if name := named(word):
                raise UserError(
                    f"{key}[{place}] gives {name}, which looks like a secret, and others read scripts and "
                    "command lines; keep it in a file that only you can read"
                )


def _check_launcher(site: SiteConfig) -> None:
    """mpirun has a shell start its daemons on other nodes, with its own path bare and its options in double quotes."""
    if site.launcher != "mpirun":
        return
    if site.launcher_path is not None and not PATH_OF_A_LAUNCHER.fullmatch(site.launcher_path):
        raise UserError(
            f"site.launcher_path={shown(site.launcher_path)}: a shell on other nodes reads it; letters, digits and "
            "_./+@%:=,- make one"
        )
    for place, word in enumerate(site.launcher_options):
        if EXPANDED.search(word):
            raise UserError(
                f"site.launcher_options[{place}]={shown(word)}: mpirun gives it to a shell on other nodes, which reads "
                f'$, `, " and \\ in it; leave them out'
            )


def is_ours(directive: str, scheduler: str) -> bool:
    """Whether an option says what the job's own ones say, or would make several jobs of one run."""
    name, value = re.match(r"\s*(-{1,2}[A-Za-z][A-Za-z_-]*)?[\s=]*(.*)", directive, re.DOTALL).groups()  # type: ignore[union-attr]
    if name is None:
        return False
    if not name.startswith("--") and scheduler != "gridengine":  # -N2 is -N 2
        name, value = name[:2], directive.strip()[2:].lstrip(" =")
    if scheduler == "pbs" and name == "-l":
        return bool(re.search(r"(^|,)\s*(select|nodes|walltime)=", value))
    if scheduler == "pbs" and name == "-W":
        return "depend" in value
    if scheduler == "gridengine" and name == "-l":
        return bool(re.search(r"(^|,)\s*h_rt=", value))
    return name in OURS.get(scheduler, ())


def _check_variables(site: SiteConfig) -> None:
    names = {
        **{f"site.require[{place}]": name for place, name in enumerate(site.require)},
        **{f"site.environment.{shown(name)}": name for name in site.environment},
    }
    if site.local_storage is not None:
        names["site.local_storage"] = site.local_storage
    for key, name in names.items():
        if not VARIABLE.fullmatch(name):
            raise UserError(f"{key}: {shown(name)} is no name of a variable; letters, digits and _ make one")
    for name in site.environment:
        if SECRET.search(name):
            raise UserError(
                f"site.environment.{name} looks like a secret, and scripts and logs are read by others; keep it in a "
                "file that only you can read"
            )
        if name.startswith(LAUNCHERS_OWN):
            raise UserError(f"site.environment.{name}: launchers and the job script set it; take another way")


def _check_numbers(site: SiteConfig) -> None:
    at_least = {
        "site.gpus_per_node": (site.gpus_per_node, 0),
        "site.cores_per_node": (site.cores_per_node, 1),
        "site.requeue.max": (site.requeue.max, 0),
        "site.requeue.lead_s": (site.requeue.lead_s, 1),
        "site.start_timeout_s": (site.start_timeout_s, 1),
        "site.limits.nodes": (site.limits.nodes, 1),
    }
    for key, (found, least) in at_least.items():
        if found is not None and found < least:
            raise UserError(f"{key}={found}: must be at least {least}")
        if found is not None and found > 10**6:
            raise UserError(f"{key}={found}: must be at most 1000000")
    if site.limits.hours is not None and not site.limits.hours > 0:
        raise UserError(f"site.limits.hours={site.limits.hours:g}: must be above 0")


def check_wall_time(site: SiteConfig) -> None:
    """Raise UserError for a wall time that is none, or too short to save in."""
    wall_s = seconds(site.wall_time)
    if site.scheduler != "local" and site.requeue.max and site.requeue.lead_s >= wall_s:
        raise UserError(
            f"site.requeue.lead_s={site.requeue.lead_s}: ranks would be asked to save before they start, since the "
            f"wall time is {wall_s} s; take a shorter lead or a longer site.wall_time"
        )


def _check_container(site: SiteConfig, container: ContainerConfig) -> None:
    if container.name == "none":
        return
    if site.scheduler == "local":
        raise UserError(f"container={container.name}: site=local runs in .venv; take container=none, or another site")
    if not container.image:
        raise UserError(f"container.image is missing, and container={container.name} runs one; give IMAGE=…")
    for key, path in [("container.image", container.image), *(("container.binds", bind) for bind in container.binds)]:
        if not path.isprintable() or "," in path:
            raise UserError(f"{key}={shown(path)}: {container.name} takes no comma or line break in a path")


def shown(text: str) -> str:
    """A value as an error line can show it: on one line, and not too long."""
    line = repr(text) if not text.isprintable() or " " in text else text
    return line if len(line) <= 80 else f"{line[:77]}..."
