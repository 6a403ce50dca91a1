"""Which programs of this machine build images and run them, and what to install where there is none. Torch-free."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.scheduler import call
from pipeline.errors import UserError

WITH_BUILDKIT = (23, 0)
"""Docker's own client from here on builds by its plug-in buildx, before by itself; without either it cannot mount."""


@dataclass(frozen=True)
class Builder:
    """A program that builds an image from a Dockerfile."""

    name: str
    build: tuple[str, ...]
    """The words that build, before options that all of them have."""
    save: tuple[str, ...]
    """The words that write the image TAG to the file PATH, as an archive of docker's."""
    inspect: tuple[str, ...]
    """The words that fail where there is no image of a tag, which follows them."""
    mounts_folders: bool
    """Whether it takes --volume for a build."""
    environment: Mapping[str, str]

    def saving(self, tag: str, path: Path) -> list[str]:
        """The command that writes an image to a file."""
        return [word.replace("TAG", tag).replace("PATH", str(path)) for word in self.save]


BUILDERS = {
    "docker": Builder(
        "docker",
        ("docker", "build"),
        ("docker", "save", "--output", "PATH", "TAG"),
        ("docker", "image", "inspect"),
        False,
        {"DOCKER_BUILDKIT": "1"},
    ),
    "buildah": Builder(
        "buildah",
        ("buildah", "build", "--isolation", "chroot", "--format", "docker", "--layers"),
        ("buildah", "push", "--quiet", "TAG", "docker-archive:PATH:TAG"),
        ("buildah", "inspect", "--type", "image"),
        True,
        {},
    ),
    "podman": Builder(
        "podman",
        ("podman", "build", "--isolation", "chroot", "--format", "docker", "--layers"),
        ("podman", "save", "--quiet", "--format", "docker-archive", "--output", "PATH", "TAG"),
        ("podman", "image", "inspect"),
        True,
        {},
    ),
}
"""By name, in the order in which they are looked for. chroot needs no other runtime and no cgroups; docker's format has
a health check, OCI's has none."""

RUNNERS = ("apptainer", "singularity")

BUILDER_NEEDED = (
    "docker (with its daemon running), buildah or podman; on Debian: apt-get install --no-install-recommends buildah"
)
RUNNER_NEEDED = "apptainer (1.2 or newer) or singularity (SingularityCE 4); apptainer's releases have a Debian package"


def find_builder(wanted: str = "") -> Builder:
    """The first program that can build here, or the one that is wanted. Raises UserError with what was found."""
    if wanted and wanted not in BUILDERS:
        raise UserError(f"BUILDER={wanted}: no such builder; there are {', '.join(BUILDERS)}")
    whys = []
    for builder in [BUILDERS[wanted]] if wanted else BUILDERS.values():
        why = unable(builder)
        if not why:
            return builder
        whys.append(f"{builder.name} {why}")
    raise UserError(f"nothing builds an image here: {'; '.join(whys)}; needed: {BUILDER_NEEDED}")


def unable(builder: Builder) -> str:
    """Why a builder cannot build here; empty where it can."""
    if shutil.which(builder.name) is None:
        return "is not on PATH"
    if builder.name != "docker":
        return ""
    told = call(["docker", "version", "--format", "{{.Client.Version}}"])
    if told.returncode:
        return "has no daemon that answers (dockerd)"
    major, minor, *_ = [*told.stdout.strip().split("."), "0"]
    if (int(major), int(minor)) >= WITH_BUILDKIT and call(["docker", "buildx", "version"]).returncode:
        return f"{told.stdout.strip()} lacks its plug-in buildx"
    return ""


def find_runner(wanted: str = "") -> str:
    """apptainer or singularity. Raises UserError where there is neither."""
    for name in [wanted] if wanted else RUNNERS:
        if shutil.which(name):
            return name
    raise UserError(f"no {wanted or ' and no '.join(RUNNERS)} on PATH; needed: {RUNNER_NEEDED}")


def first_line_of(command: Sequence[str]) -> str:
    """What a program says first, as of its version; empty where it says nothing."""
    done = call(command)
    return next(iter(f"{done.stdout}\n{done.stderr}".strip().splitlines()), "")


def is_root() -> bool:
    """Whether this is root, which a base of debootstrap needs."""
    return os.geteuid() == 0
