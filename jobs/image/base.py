"""A base for the image where no registry can be reached: Debian, made by debootstrap. Needs root. Torch-free."""

import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from jobs.image.programs import Builder, is_root
from pipeline.errors import UserError

DEBOOTSTRAP = "debootstrap"
"""What BASE= says for it."""

DOCKERFILE = 'FROM scratch\nADD base.tar /\nCMD ["bash"]\n'

LEFT_OUT = ("var/cache/apt", "var/lib/apt/lists", "var/log", "var/cache/debconf", "dev", "proc", "sys", "tmp", "run")
"""Folders of which an image keeps only the folder itself."""


def make_base(builder: Builder, suite: str, folder: Path, *, include: Sequence[str] = ()) -> str:
    """Make an image of Debian's `suite` and return its tag; what debootstrap has made is kept in `folder`.

    include: packages beside those of a minimal system. Raises UserError where that cannot be done here.
    """
    name = "-".join([suite, *include])
    archive = folder / name / "base.tar"
    if not archive.exists():
        _debootstrap(suite, archive, include)
    (archive.parent / "Dockerfile").write_text(DOCKERFILE)
    tag = f"torus224-base:{name}"
    done = subprocess.run([*builder.build, "--tag", tag, str(archive.parent)], check=False)
    if done.returncode:
        raise UserError(f"{builder.name} makes no image of {archive}; its own words are above")
    return tag


def _debootstrap(suite: str, archive: Path, include: Sequence[str]) -> None:
    """Have debootstrap make a minimal system, and pack it."""
    if shutil.which(DEBOOTSTRAP) is None:
        raise UserError("BASE=debootstrap: no debootstrap on PATH; needed: apt-get install debootstrap")
    if not is_root():
        raise UserError("BASE=debootstrap: debootstrap needs root; name an image by BASE= instead")
    tree = archive.parent / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    tree.chmod(0o755)
    more = [f"--include={','.join(include)}"] if include else []
    done = subprocess.run([DEBOOTSTRAP, "--variant=minbase", *more, suite, str(tree)], check=False)
    if done.returncode:
        raise UserError(f"debootstrap of {suite} ended with code {done.returncode}; {tree}/debootstrap has its log")
    unfinished = archive.with_suffix(".part")
    with tarfile.open(unfinished, "w") as packed:
        packed.add(tree, arcname=".", filter=_kept)
    unfinished.rename(archive)
    shutil.rmtree(tree)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    path = member.name.removeprefix("./")
    return None if any(path.startswith(f"{folder}/") for folder in LEFT_OUT) else member
