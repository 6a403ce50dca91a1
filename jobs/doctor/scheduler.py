"""Checks of the scheduler: its commands, its server, what the site grants, its own test of the script. Torch-free."""

import re
import tempfile
from pathlib import Path

from jobs.allocation import beyond_limits
from jobs.doctor.finding import Finding, Subject, ask, first_line
from jobs.executor import script
from jobs.scheduler import call, find, words
from pipeline.errors import UserError
from pipeline.wording import counted

COMMANDS, SERVER, TEST, LIMITS = "scheduler's commands", "scheduler", "scheduler's test of the script", "site's limits"

VERSION = re.compile(r"(?:SLURM_VERSION|pbs_version)\s*=\s*(\S+)")
"""Where `scontrol show config` and `qstat -Bf` say it; Grid Engine does in its first line."""

CANNOT_RUN = re.compile(r"verification: no suitable queues")
"""What Grid Engine says of such a job, in some versions without an exit code."""


def commands(subject: Subject) -> Finding:
    """Whether the programs are there that submit, ask and cancel."""
    if subject.job is None:
        return Finding(COMMANDS, "skip", "site=local has no scheduler")
    scheduler = find(subject.config.site.scheduler)
    lacking = scheduler.missing()
    names = ", ".join(scheduler.programs)
    if not lacking:
        return Finding(COMMANDS, "ok", names)
    found, _, mend = lacking.partition(", so ")
    return Finding(COMMANDS, "FAIL", found, names, mend)


def server(subject: Subject) -> Finding:
    """Whether the scheduler's server answers, and which version it has."""
    if subject.job is None:
        return Finding(SERVER, "skip", "site=local has none")
    scheduler = find(subject.config.site.scheduler)
    if scheduler.missing():
        return Finding(SERVER, "skip", "its commands are not here")
    try:
        answer = ask(scheduler.version_command())
    except UserError as error:
        mend = "ask on a login node of the cluster, or wait until the site has its scheduler up again"
        needed = f"a server of {scheduler.title} that answers"
        return Finding(SERVER, "FAIL", f"it does not answer ({error})", needed, mend, verb="")
    version = VERSION.search(answer)
    return Finding(SERVER, "ok", f"{scheduler.title} {version[1]}" if version else first_line(answer))


def limits(subject: Subject) -> Finding:
    """Whether the site grants that much without a reservation. submit refuses what it does not."""
    if subject.job is None:
        return Finding(LIMITS, "skip", "this machine has none")
    asked, site = subject.job.allocation, subject.config.site
    refusal = beyond_limits(subject.config, subject.plan, asked)
    if refusal:
        return Finding(LIMITS, "warn", refusal)
    known = [counted(site.limits.nodes, "node")] if site.limits.nodes else []
    known += [f"{site.limits.hours:g} h"] if site.limits.hours else []
    wanted = f"{counted(asked.nodes, 'node')} for {site.wall_time}"
    granted = "a reservation" if site.reservation else " and ".join(known) or "no limit that its profile knows"
    return Finding(LIMITS, "ok", granted, wanted)


def test(subject: Subject, server: Finding) -> Finding:
    """What the scheduler itself says of the script, where it can without taking it. server: what was found of it."""
    if subject.job is None:
        return Finding(TEST, "skip", "site=local has no scheduler")
    if server.level != "ok":
        return Finding(TEST, "skip", "the scheduler does not answer")
    scheduler = find(subject.config.site.scheduler)
    if "site.account" in subject.stand_ins:
        return Finding(TEST, "skip", "site.account has no value")
    with tempfile.TemporaryDirectory(prefix="torus224-doctor-") as folder:
        path = Path(folder) / "job.sh"
        path.write_text(script(subject.job, scheduler))
        command = scheduler.test_command(subject.job, path)
        if command is None:
            return Finding(TEST, "skip", f"{scheduler.title} has none")
        try:
            done = call(command)
        except UserError as error:
            return Finding(TEST, "FAIL", str(error), "its word that the job could run")
    said = words(done)
    if done.returncode or CANNOT_RUN.search(f"{done.stdout}\n{done.stderr}"):
        mend = "the options are the script's first lines (make render), from site.* and conf/user.yaml"
        return Finding(TEST, "FAIL", said, "its word that the job could run", mend)
    return Finding(TEST, "ok", said)
