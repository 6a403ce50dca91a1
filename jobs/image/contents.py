"""What is in an image's archive: layers with their sizes, files, and what must not be among them. Torch-free."""

import json
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pipeline.errors import UserError

PROGRAMS = r"gcc|g\+\+|cc|c\+\+|cpp|clang|clang\+\+|gfortran|ld|as|make|cmake|ninja|nvcc|rustc|cargo|go|pip|pip3|git"
"""What builds or installs: a job needs none of it. Open MPI's mpicc is a wrapper of what is not there."""

FORBIDDEN = {
    "a compiler or build tool": rf"(usr/(local/)?|opt/torus224/)?s?bin/(\S+-linux-gnu-)?({PROGRAMS})(-?[\d.]+)?",
    "headers of the system": r"usr/include/.+\.h",
    "a package index or an archive of packages": r"var/(lib/apt/lists|cache/apt)/.+|.+\.(deb|whl)",
    "a cache": r"(root|home/[^/]+)/\.cache/.+|var/cache/(debconf/.+-old|ldconfig/.+|man/.+)",
    "a temporary file": r"(tmp|var/tmp|run/secrets)/.+",
    "a log": r"var/log/.+",
    "settings of pip": r"(.+/)?(pip\.conf|\.pip/.*|\.pypirc)",
    "a secret": r"(.+/)?(\.netrc|\.git-credentials|\.(ssh|aws|docker)/.+|id_(rsa|dsa|ecdsa|ed25519)|.+\.key)",
    "the repository": r"(.+/)?(\.git|\.venv)(/.*)?|(opt/torus224|root|home/[^/]+)/(pipeline|jobs|conf|runs)/.+",
}
"""What must not be there: regular expressions of whole paths below /."""

ALLOWED = re.compile(r"usr/share/keyrings/.+|etc/apt/trusted\.gpg\.d/.+|.+/site-packages/.+/(_?tests?|testing)/.+")
"""Public keys of Debian's, and what packages bring along for their own tests."""

OF_A_MACHINE = ("etc/hostname", "etc/resolv.conf")
"""Empty in an image, if there at all: who runs it mounts the host's."""

PASSWORD = re.compile(r"://[^/@\s:]+:[^/@\s]+@")
"""In an address."""

SETTINGS = re.compile(r"(etc|root|home)/.+|opt/torus224/[^/]+")
"""Files that are read for addresses of registries."""

LARGEST_SETTINGS_BYTES = 65536


@dataclass(frozen=True)
class Layer:
    """One step of the Dockerfile, or of the base."""

    made_by: str
    size_bytes: int


@dataclass(frozen=True)
class Contents:
    """What an archive holds."""

    layers: tuple[Layer, ...]
    files: Mapping[str, int]
    """Sizes by path below /, of what is left after all layers."""
    settings: Mapping[str, str]
    """Texts of small files that could name registries, by path."""
    config: Mapping[str, Any]
    """Environment, labels, user, health check: the image's `config`."""
    history: tuple[str, ...]
    """What made each layer, and what changed the configuration alone."""

    @property
    def size_bytes(self) -> int:
        return sum(self.files.values())


def read(archive: Path) -> Contents:
    """Read an archive as docker, buildah and podman save it. Raises UserError for another file."""
    try:
        with tarfile.open(archive) as packed:
            (manifest,) = json.load(_member(packed, "manifest.json"))
            image = json.load(_member(packed, manifest["Config"]))
            files: dict[str, int] = {}
            settings: dict[str, str] = {}
            sizes = [_apply(_member(packed, name), files, settings) for name in manifest["Layers"]]
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        raise UserError(f"{archive} is no archive of an image: {error}; `make image` makes one") from None
    history = list(image.get("history", []))
    steps = [" ".join(step.get("created_by", "").split()) for step in history]
    made = [words for words, step in zip(steps, history, strict=True) if not step.get("empty_layer")]
    made += [""] * (len(sizes) - len(made))
    layers = tuple(Layer(words, size) for words, size in zip(made, sizes, strict=False))
    return Contents(layers, files, settings, image.get("config", {}), tuple(steps))


def faults(contents: Contents, places: Sequence[str] = ()) -> list[str]:
    """What is in the image and must not be. places: addresses and folders of registries that only this machine has."""
    found = [
        f"{what}: {', '.join(paths[:3])}{f' and {len(paths) - 3} more' if len(paths) > 3 else ''}"
        for what, pattern in FORBIDDEN.items()
        if (paths := _matching(pattern, contents.files))
    ]
    found += [f"{path} of the machine that built it" for path in OF_A_MACHINE if contents.files.get(path)]
    texts = {
        **contents.settings,
        "the environment": "\n".join(contents.config.get("Env") or []),
        "the history": "\n".join(contents.history),
    }
    for where, text in texts.items():
        found += [f"a password in {where}"] if PASSWORD.search(text) else []
        found += [f"{place} in {where}" for place in places if place in text]
    if contents.config.get("User", "") in ("", "0", "root"):
        found.append("the user is root")
    return found


def _matching(pattern: str, files: Iterable[str]) -> list[str]:
    whole = re.compile(pattern)
    return [path for path in files if whole.fullmatch(path) and not ALLOWED.fullmatch(path)]


def _member(packed: tarfile.TarFile, name: str) -> IO[bytes]:
    file = packed.extractfile(name)
    if file is None:
        raise KeyError(f"{name} is no file")
    return file


def _apply(layer: IO[bytes], files: dict[str, int], settings: dict[str, str]) -> int:
    """Put a layer over those below it; the bytes that it brings."""
    size = 0
    with tarfile.open(fileobj=layer) as packed:
        for member in packed:
            path = Path(member.name.removeprefix("./").lstrip("/"))
            if path.name == ".wh..wh..opq":
                _remove(f"{path.parent}/", files, settings)
            elif path.name.startswith(".wh."):
                _remove(str(path.with_name(path.name.removeprefix(".wh."))), files, settings)
            elif not member.isdir():
                files[str(path)] = member.size
                size += member.size
                if member.isfile() and member.size <= LARGEST_SETTINGS_BYTES and SETTINGS.fullmatch(str(path)):
                    settings[str(path)] = _member_text(packed, member)
    return size


def _member_text(packed: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = packed.extractfile(member)
    return "" if file is None else file.read().decode(errors="replace")


def _remove(path: str, *found: dict[str, Any]) -> None:
    """Take away a file, or a folder with all below it."""
    below = path if path.endswith("/") else f"{path}/"
    for one in found:
        for name in [name for name in one if name == path or name.startswith(below)]:
            del one[name]
