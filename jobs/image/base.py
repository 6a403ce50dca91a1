"""A base for the image where no registry can be reached: Debian, made by debootstrap. Needs root. Torch-free."""

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from jobs.image.programs import Builder, is_root
from jobs.scheduler import call
from pipeline.errors import UserError

DEBOOTSTRAP = "debootstrap"
"""What BASE= says for it."""

DOCKERFILE = 'FROM scratch\nADD base.tar /\nCMD ["bash"]\n'

LEFT_OUT = ("var/cache/apt", "var/lib/apt/lists", "var/log", "var/cache/debconf", "dev", "proc", "sys", "tmp", "run")
"""Folders of which an image keeps only the folder itself."""

OF_THIS_MACHINE = ("etc/hostname", "etc/resolv.conf")
"""What debootstrap copies from the machine that it runs on."""


def make_base(builder: Builder, suite: str, *, include: Sequence[str] = ()) -> str:
    """Make an image of Debian's `suite` and return its tag; where the builder has it already, that is taken.

    include: packages beside those of a minimal system. Raises UserError where that cannot be done here.
    """
    tag = f"torus224-base:{'-'.join([suite, *include])}"
    if not call([*builder.inspect, tag]).returncode:
        print(f"base: {tag}, made before; `{builder.name} rmi {tag}` has it made anew", flush=True)
        return tag
    with tempfile.TemporaryDirectory(prefix="torus224-base-") as folder:
        context = Path(folder) / "context"
        context.mkdir()
        _pack(_debootstrap(suite, Path(folder) / "tree", include), context / "base.tar")
        (context / "Dockerfile").write_text(DOCKERFILE)
        environment = os.environ | builder.environment
        done = subprocess.run([*builder.build, "--tag", tag, str(context)], env=environment, check=False)
    if done.returncode:
        raise UserError(f"{builder.name} makes no image of what debootstrap made; its own words are above")
    return tag


def _debootstrap(suite: str, tree: Path, include: Sequence[str]) -> Path:
    """Have debootstrap make a minimal system."""
    if shutil.which(DEBOOTSTRAP) is None:
        raise UserError("BASE=debootstrap: no debootstrap on PATH; needed: apt-get install debootstrap")
    if not is_root():
        raise UserError("BASE=debootstrap: debootstrap needs root; name an image by BASE= instead")
    tree.mkdir(mode=0o755)
    more = [f"--include={','.join(include)}"] if include else []
    done = subprocess.run([DEBOOTSTRAP, "--variant=minbase", *more, suite, str(tree)], check=False)
    if done.returncode:
        raise UserError(f"debootstrap of {suite} ended with code {done.returncode}; its own words are above")
    return tree


def _pack(tree: Path, archive: Path) -> None:
    with tarfile.open(archive, "w") as packed:
        packed.add(tree, arcname=".", filter=_kept)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    path = member.name.removeprefix("./")
    below = any(path.startswith(f"{folder}/") for folder in LEFT_OUT)
    return None if below or path in OF_THIS_MACHINE else member
