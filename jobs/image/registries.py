"""What pip on this machine was told of registries, for a build to know while it lasts: a file and folders to mount.

Nothing of it is written into the image: registries, proxies with passwords and certificates are a machine's own.
Torch-free.
"""

import os
import re
import ssl
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from jobs.scheduler import call

KEYS = ("index-url", "extra-index-url", "find-links", "trusted-host", "proxy", "timeout", "retries", "no-index")
"""Of pip's settings those that say where packages are: constraints, caches and certificates are paths of its own."""


@dataclass(frozen=True)
class Registries:
    """What a build needs to reach packages as pip here does."""

    settings: str
    """The text of a pip.conf."""
    folders: tuple[Path, ...]
    """Folders of this machine that the settings name."""
    certificates: Path | None
    """A file of certificates that pip is to trust instead of its own."""


def known_here() -> Registries:
    """What pip of this Python is told by its configuration files and variables."""
    done = call([sys.executable, "-m", "pip", "config", "list"])
    return registries(done.stdout if done.returncode == 0 else "", os.environ)


def registries(listed: str, environment: Mapping[str, str]) -> Registries:
    """From the lines of `pip config list`, in which variables come as `:env:`, the stronger ones."""
    found: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        place, _, value = line.partition("=")
        found[place.rpartition(".")[2]] = value.strip().strip("'\"").replace("\\n", " ")
    settings = {key: found[key] for key in KEYS if found.get(key)}
    certificates = found.get("cert") or environment.get("REQUESTS_CA_BUNDLE") or environment.get("SSL_CERT_FILE")
    text = "".join(f"{key} = {_lines(value)}\n" for key, value in settings.items())
    return Registries(
        f"[global]\n{text}" if text else "",
        tuple(dict.fromkeys(_folders(" ".join(settings.values()).split()))),
        Path(certificates) if certificates and certificates != ssl.get_default_verify_paths().openssl_cafile else None,
    )


def _lines(value: str) -> str:
    """Several values as pip.conf has them."""
    return re.sub(r"\s+", "\n    ", value)


def _folders(words: Sequence[str]) -> list[Path]:
    """Folders of this machine among words; of an index of packages the one above it too, where its files lie."""
    paths = [Path(unquote(urlsplit(word).path) if word.startswith("file:") else word) for word in words]
    found = [path for path in paths if path.is_absolute() and path.is_dir()]
    return [path.parent if path.name == "simple" else path for path in found]
