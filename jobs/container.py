"""A rank inside an image: the small program that mpirun starts in its place, as text. Pure; torch-free.

The launcher tells a rank who it is by variables (OMPI_*, PMIX_*, PRTE_*, SLURM_*). An image with an empty environment
does not see them, and each rank would take itself for a world of one: so they are passed on by name, under both
prefixes that Apptainer and Singularity read.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from jobs.job import Job
from jobs.script import Expansion, quote, wrapped

OF_LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "SLURM_", "PBS_", "TORUS224_", "NCCL_", "GLOO_")
"""Beginnings of variables that a rank needs, whatever the image does with the environment."""

OF_HOST_MODULES = ("OPAL_PREFIX", "PMIX_PREFIX", "PYTHONHOME", "LD_PRELOAD")
"""What a host's modules set for their own Open MPI and Python: wrong inside."""

OF_EVERY_NODE = ("/dev/shm", "/tmp")  # noqa: S108 - bound as they are: nothing of ours is written there by name

LOCAL = Expansion('"${local[@]}"')
USER = ("--user", Expansion('"$(id -u):$(id -g)"'), Expansion('"${variables[@]}"'))


def rank_program(job: Job, command: Sequence[str], names: Collection[str]) -> str:
    """A bash program that becomes `command` inside the job's image.

    names: variables to pass on, beside the launchers'.
    """
    kind = job.config.container.name
    return _docker(job, command, names) if kind == "docker" else _apptainer(job, command, names)


def _apptainer(job: Job, command: Sequence[str], names: Collection[str]) -> str:
    container = job.config.container
    words = [container.name, "exec"]
    if job.config.site.device == "cuda":
        words.append("--nv")
    if container.clean_env:
        words.append("--cleanenv")
    if not container.mount_home:
        words.append("--no-home")
    for bind in _binds(job):
        words += ["--bind", bind]
    inside = {"OPAL_PREFIX": container.opal_prefix, "PMIX_PREFIX": container.pmix_prefix}
    given = "".join(
        f"export APPTAINERENV_{name}={quote([value])} SINGULARITYENV_{name}={quote([value])}\n"
        for name, value in inside.items()
        if value is not None
    )
    return f"""#!/bin/bash
# A rank inside {_comment(container.image)}.
unset {" ".join(OF_HOST_MODULES)}
for name in $(compgen -e); do
    case $name in
        {_pattern(names)})
            export "APPTAINERENV_$name=${{!name}}" "SINGULARITYENV_$name=${{!name}}" ;;
    esac
done
{given}{_local_bind(job)}exec {wrapped([*words, LOCAL, *container.options, str(container.image), *command])}
"""


def _docker(job: Job, command: Sequence[str], names: Collection[str]) -> str:
    container = job.config.container
    words: list[str] = ["docker", "run", "--rm", "--network=host", "--ipc=host", "--pid=host", "--uts=host"]
    if job.config.site.device == "cuda":
        words.append("--gpus=all")
    for bind in _binds(job):
        words += ["--volume", bind if ":" in bind else f"{bind}:{bind}"]
    inside = {"OPAL_PREFIX": container.opal_prefix, "PMIX_PREFIX": container.pmix_prefix}
    for name, value in inside.items():
        words += [] if value is None else ["--env", f"{name}={value}"]
    words += [LOCAL, *USER, "--workdir", str(job.repository), *container.options, str(container.image), *command]
    return f"""#!/bin/bash
# A rank inside {_comment(container.image)}.
unset {" ".join(OF_HOST_MODULES)}
variables=()
for name in $(compgen -e); do
    case $name in
        {_pattern(names)}) variables+=(--env "$name") ;;
    esac
done
{_local_bind(job)}exec {wrapped(words)}
"""


def _pattern(names: Collection[str]) -> str:
    others = sorted(name for name in set(names) if not name.startswith(OF_LAUNCHERS))
    return " | ".join([*(f"{prefix}*" for prefix in OF_LAUNCHERS), *others])


def _binds(job: Job) -> list[str]:
    """What a rank sees of the host, the same path inside: each once."""
    paths = [str(job.repository), str(job.folder.path), *OF_EVERY_NODE]
    if not job.config.data.synthetic:
        paths.append(job.config.data.path)
    if job.config.container.mount_home:
        paths.append(str(Path.home()))
    return [*dict.fromkeys(paths), *job.config.container.binds]


def _local_bind(job: Job) -> str:
    """Shell: sets `local`, the words that bind the node's own disk, whose path only the job knows."""
    variable = job.config.site.local_storage
    option = "--volume" if job.config.container.name == "docker" else "--bind"
    names = [name for name in (variable, "TMPDIR") if name]
    inside = '"${!name}:${!name}"' if option == "--volume" else '"${!name}"'
    return f"""local=()
for name in {" ".join(names)}; do
    [ ! -d "${{!name:-}}" ] || local+=({option} {inside})
done
"""


def _comment(text: str | None) -> str:
    return " ".join(str(text).split())
