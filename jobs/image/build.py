"""Build the image from the Dockerfile: `python -m jobs.image.build` (make image). Torch-free.

Comes out: an image in the store of the program that builds, and build/torus224.tar (or torus224-small.tar), an archive
that docker, podman, apptainer and singularity read.
"""

import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.command_line import Parser, run
from jobs.compose import REPOSITORY
from jobs.environment import commit
from jobs.image.base import DEBOOTSTRAP, make_base
from jobs.image.programs import Builder, find_builder, first_line_of
from jobs.image.registries import Registries, known_here
from jobs.image.versions import read_versions
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE

BUILD = REPOSITORY / "build"
"""Where what is built lies; git ignores it."""

SMALL = "antlr4-python3-runtime|hydra-core|mpi4py|numpy|omegaconf|openmpi|packaging|PyYAML"
"""The Dockerfile's ONLY of a small image, which starts ranks and trains nothing."""


@dataclass(frozen=True)
class Recipe:
    """What one build is made of."""

    base: str
    python: str
    only: str | None
    """The Dockerfile's ONLY; None: its own."""
    version: str
    commit: str


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make image", description=__doc__)
    parser.add_argument("--base", default="", help="an image, best by digest, or debootstrap; default: versions.env's")
    parser.add_argument("--builder", default="", help="docker, buildah or podman; default: the first that can build")
    parser.add_argument("--small", action="store_true", help="leave large wheels out: for tests of launching")
    options, more = parser.parse_known_args(arguments)
    os.umask(0o022)  # what is copied into the image is for everybody
    builder = find_builder(options.builder)
    print(f"found {builder.name}: {first_line_of([builder.name, '--version'])}", flush=True)
    versions = read_versions(REPOSITORY / "versions.env")
    base = options.base or versions["BASE_IMAGE"]
    if base == DEBOOTSTRAP:
        base = make_base(builder, versions["DEBIAN_SUITE"])
    print(f"image: {build(builder, base, small=options.small, more=more)}")
    return EXIT_DONE


def build(builder: Builder, base: str, *, small: bool = False, more: Sequence[str] = (), folder: Path = BUILD) -> Path:
    """Build an image; its archive, in `folder`. more: words for the program that builds.

    Raises UserError where it cannot be built.
    """
    began_s = time.monotonic()
    versions = read_versions(REPOSITORY / "versions.env")
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    recipe = Recipe(
        base,
        versions["PYTHON_VERSION"],
        SMALL if small else None,
        version,
        commit(REPOSITORY),
    )
    name = "torus224-small" if small else "torus224"
    tag = f"{name}:{version}"
    with tempfile.TemporaryDirectory(prefix="torus224-image-") as mounted:
        words = command(builder, recipe, tag, REPOSITORY, known_here(), Path(mounted))
        _run([*words, *more, str(REPOSITORY)], builder)
    archive = folder / f"{name}.tar"
    folder.mkdir(exist_ok=True)
    archive.unlink(missing_ok=True)  # some would add to it
    _run(builder.saving(tag, archive), builder)
    print(f"{tag}: {archive.stat().st_size / 1e9:.2f} GB, {time.monotonic() - began_s:.0f} s")
    return archive


def command(
    builder: Builder, recipe: Recipe, tag: str, repository: Path, registries: Registries, folder: Path
) -> list[str]:
    """The command that builds, but for the context. folder: takes what is only mounted while it builds."""
    arguments = {
        "BASE": recipe.base, "PYTHON_VERSION": recipe.python, "ONLY": recipe.only,
        "VERSION": recipe.version, "COMMIT": recipe.commit,
    }  # fmt: skip
    words = [*builder.build, "--network", "host", "--file", str(repository / "Dockerfile"), "--tag", tag]
    for name, value in arguments.items():
        words += [] if value is None else ["--build-arg", f"{name}={value}"]
    if registries.settings:
        settings = folder / "pip.conf"
        settings.write_text(registries.settings)
        words += ["--secret", f"id=pip.conf,src={settings}"]
    if registries.certificates:
        words += ["--secret", f"id=certificates,src={registries.certificates}"]
    if builder.mounts_folders:
        words += [word for path in registries.folders for word in ("--volume", f"{path}:{path}:ro")]
    return words


def _run(words: Sequence[str], builder: Builder) -> None:
    """Run a command and show what it says. Raises UserError where it fails."""
    environment: Mapping[str, str] = os.environ | builder.environment
    try:
        code = subprocess.run(words, env=environment, check=False).returncode
    except OSError as error:
        raise UserError(f"{words[0]} cannot be run: {error.strerror}") from None
    if code:
        raise UserError(f"{words[0]} {words[1]} ended with code {code}; its own words are above")


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
