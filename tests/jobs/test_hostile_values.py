"""Any text in any place of a configuration: it is refused in one line, or the script still means the same by it.

The scripts run, under a real bash, with stand-ins for launchers, schedulers and containers that note what they got.
"""

import copy
import functools
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobs import launch
from jobs.compose import compose
from jobs.executor import array_script, script
from jobs.job import Job, make_job
from jobs.scheduler import find
from jobs.script import Expansion
from pipeline.config import Config, check
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder

CANARY = "canary"
"""A file that appears in the working folder if a value is run."""

BAITS = [
    f"$(touch {CANARY})", f"`touch {CANARY}`", f"; touch {CANARY};", f"\n touch {CANARY}\n", f"' ; touch {CANARY} ; '",
    f'" ; touch {CANARY} ; "', f"x\nEND_OF_RANK\ntouch {CANARY}\n", f"x\nEND_OF_LAUNCH-AGENT\ntouch {CANARY}\n",
    "\n#SBATCH --nodes=99\n", "\n#PBS -l select=99\n", "\n#$ -l rt_F=99\n", f"& touch {CANARY} &", f"| touch {CANARY}",
    f"\\'$(touch {CANARY})", "a b", "é", "日本",
    "", "-", "--", "*", "~", "$HOME", "#", "!!", "\t", "\r\n", "\\", "\\\\n",
    "x" * 5000, "%j", "a,b", "a:b", "\x7f\x01",
]  # fmt: skip

TEXTS = st.one_of(
    st.sampled_from(BAITS),
    st.lists(st.sampled_from(BAITS), min_size=2, max_size=3).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)

SITES = {
    "slurm": ["nodes=2", "container=none"],
    "pbs": ["nodes=2", "container=none"],
    "gridengine": ["nodes=2", "container=none", "site.launch_agent=qrsh"],
    "abci": ["nodes=2", "site.account=gaa", "container.image=/images/a.sif"],
    "abci3": ["nodes=2", "site.account=gaa", "container=docker", "container.image=torus224"],
}

STAND_IN = """#!/bin/bash
name=${0##*/}
[ "$name" != "$LAUNCHER" ] || name=mpirun
printf '%s\\0' "$@" > "$NOTES/$name.words"
env -0 > "$NOTES/$name.environment"
case "$name ${1-}" in
    "scontrol show") printf 'n1\\nn2\\n' ;;
    mpirun*)
        touch "$NOTES/../run/attempts/0/done"
        for word in "$@"; do case $word in */rank) exec "$word" ;; esac; done
        ;;
esac
exit 0
"""

PROGRAMS = ("mpirun", "srun", "scontrol", "qsub", "module", "apptainer", "singularity", "docker", "qrsh", "nvidia-smi")


def string_keys(schema: Any = Config, prefix: str = "") -> Iterator[str]:
    """Every key of the schema that holds text, or a list or mapping of texts."""
    for name, hint in get_type_hints(schema).items():
        kinds = [kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)]
        if kinds and not str(hint).startswith("list"):
            yield from string_keys(kinds[0], f"{prefix}{name}.")
        elif "str" in str(hint):
            yield prefix + name


KEYS = [key for key in string_keys() if not key.startswith("run.resume")]


@functools.cache
def base(site: str) -> Config:
    own = "site.launcher_path=mpirun"
    return compose(
        ["exp=exp5", f"site={site}", own, "data.path=/data/imagenet", *SITES[site], "run.dir=/tmp/torus224-run"]
    )


def put(config: Config, key: str, text: str) -> None:
    """Set a key to a text; of a list or a mapping, an entry."""
    *path, name = key.split(".")
    holder: Any = config
    for part in path:
        holder = getattr(holder, part)
    old = getattr(holder, name)
    if isinstance(old, list):
        setattr(holder, name, [*old, text])
    elif isinstance(old, dict):
        setattr(holder, name, {**old, "SOME_VARIABLE": text})
    else:
        setattr(holder, name, text)


@contextmanager
def prepared(config: Config) -> Iterator[tuple[Job, Path]]:
    """The job of a configuration in a new run folder, and the folder where stand-ins note what they got."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        (top / "repository").mkdir()
        (top / "notes").mkdir()
        (top / "bin").mkdir()
        for program in {*PROGRAMS, config.site.launcher_path or "mpirun"}:
            (top / "bin" / program).write_text(STAND_IN)
            (top / "bin" / program).chmod(0o755)
        job = make_job(config, RunFolder.create(top / "run"), top / "repository")
        job.folder.script.write_text(script(job, find(config.site.scheduler)))
        yield job, top


def run(job: Job, top: Path) -> "subprocess.CompletedProcess[bytes]":
    """Run a job's script with stand-ins, as a scheduler would."""
    nodes = top / "nodes"
    nodes.write_text("n1\nn2\n")
    of_a_job = dict.fromkeys([*job.config.site.require, "PBS_NODEFILE", "PE_HOSTFILE", "SGE_JOB_HOSTLIST"], str(nodes))
    environment = {
        "PATH": f"{top / 'bin'}:{os.environ['PATH']}", "NOTES": str(top / "notes"), "HOME": str(top),
        "LAUNCHER": job.config.site.launcher_path or "mpirun",
        "SLURM_JOB_ID": "1", "PBS_JOBID": "1.s", "JOB_ID": "1", **of_a_job,
    }  # fmt: skip
    return subprocess.run(
        ["bash", str(job.folder.script)], cwd=top, env=environment, capture_output=True, timeout=60, check=False
    )


def noted(top: Path, program: str) -> list[str]:
    return (top / "notes" / f"{program}.words").read_bytes().decode().split("\0")[:-1]


@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(site=st.sampled_from(sorted(SITES)), key=st.sampled_from(KEYS), text=TEXTS)
@example(site="abci3", key="container.options", text=f"x\nEND_OF_RANK\ntouch {CANARY}\n")
@example(site="abci", key="container.options", text=f"x\nEND_OF_RANK\ntouch {CANARY}\n")
@example(site="slurm", key="site.launcher_options", text=f"\n#SBATCH --nodes=99\n$(touch {CANARY})")
@example(site="gridengine", key="site.environment", text="'\n#$ -l rt_F=99\n'")
@example(site="pbs", key="site.modules", text=f"`touch {CANARY}`")
@example(site="slurm", key="experiment", text=f"x\ntouch {CANARY}")
def test_a_value_is_refused_or_means_the_same(site: str, key: str, text: str) -> None:
    config = copy.deepcopy(base(site))
    put(config, key, text)
    if key == "site.launcher_path":
        config.site.launcher_path = f"mpirun{text}".replace("/", "")[:100]  # of the length that a file's name may have
    refusal = refused(config)
    if refusal is not None:
        assert len(refusal.splitlines()) == 1
        return
    with prepared(config) as (job, top):
        done = run(job, top)
        assert not list(top.rglob(CANARY)), job.folder.script.read_text()
        assert done.returncode == 0, (done, job.folder.job_log.read_text())
        assert_same_directives(job)
        attempt = job.folder.attempts / "0"
        variables = launch.environment(job)
        scheduler = find(job.config.site.scheduler)
        words = launch.command(job, variables, host_file=scheduler.parts(job).host_file)
        expected = [real(word, attempt) for word in words]
        assert noted(top, "mpirun") == expected[1:]
        assert_environment(top, job)
        if job.config.container.name != "none":
            inside = noted(top, job.config.container.name)
            wanted = [*job.config.container.options, str(job.config.container.image), *launch.python(job)]
            assert inside[-len(wanted) :] == wanted


def refused(config: Config) -> str | None:
    try:
        check(config)
    except UserError as refusal:
        return str(refusal)
    return None


def real(word: str, attempt: Path) -> str:
    """What the shell makes of a word."""
    return word.replace('"$attempt/', f"{attempt}/").rstrip('"') if isinstance(word, Expansion) else word


def assert_same_directives(job: Job) -> None:
    """The scheduler reads the options of the job, and no other."""
    scheduler = find(job.config.site.scheduler)
    lines = job.folder.script.read_text().split("\n")
    found = [line for line in lines if re.match(r"#(SBATCH|PBS|\$)", line)]
    assert found == [f"{scheduler.prefix} {option}" for option in scheduler.options(job)]
    for option in scheduler.options(job):
        assert option.isprintable()


def assert_environment(top: Path, job: Job) -> None:
    pairs = (top / "notes" / "mpirun.environment").read_bytes().decode().split("\0")
    found = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    for name, value in job.config.site.environment.items():
        assert found[name] == value


@pytest.mark.parametrize("name", ["a b", "x;y", "$(touch canary)", "é" * 300, "\n", "..", "-"])
def test_a_job_has_a_name_that_every_scheduler_takes(name: str) -> None:
    config = copy.deepcopy(base("pbs"))
    config.experiment = name
    with prepared(config) as (job, _):
        assert re.fullmatch(r"t224-[A-Za-z0-9_.-]{1,10}", job.name)


@pytest.mark.parametrize("folder", ["a b", "x;y", "$(x)", "a,b", "a:b", "a\nb", "é", "a%j"])
def test_a_run_folder_that_a_scheduler_would_read_otherwise_is_refused_in_one_line(folder: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"paths of a batch job hold letters, digits and") as refusal:
        make_job(base("slurm"), RunFolder(tmp_path / folder), tmp_path)
    assert len(str(refusal.value).splitlines()) == 1


def test_an_array_starts_the_script_of_its_element() -> None:
    with prepared(base("slurm")) as (one, top), prepared(base("slurm")) as (two, _):
        path = top / "array.sh"
        path.write_text(array_script([one, two], find("slurm")))
        for job in (one, two):
            job.folder.script.write_text(f"echo {job.folder.path} $1")
        for index, job in enumerate((one, two)):
            environment = {**os.environ, "SLURM_ARRAY_TASK_ID": str(index)}
            done = subprocess.run(
                ["bash", str(path), "follow"], env=environment, capture_output=True, text=True, check=True
            )
            assert done.stdout == f"{job.folder.path} follow\n"


@pytest.mark.parametrize("name", ["WANDB_API_KEY", "http_proxy", "GITHUB_TOKEN", "DB_PASSWORD"])
def test_a_secret_is_not_written_into_a_script(name: str) -> None:
    config = copy.deepcopy(base("slurm"))
    config.site.environment[name] = "x"
    with pytest.raises(UserError, match=rf"site.environment.{name} looks like a secret"):
        check(config)
