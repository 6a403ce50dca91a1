"""The two files that name versions: requirements.lock (packages) and versions.env (all else). Torch-free."""

import re
from pathlib import Path

from pipeline.errors import UserError


def read_versions(path: Path) -> dict[str, str]:
    """NAME=VALUE lines of versions.env."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name: value for name, _, value in pairs}


def read_lock(path: Path) -> dict[str, str]:
    """Versions by distribution of requirements.lock, which holds exact pins only. Raises UserError for another line."""
    found = {}
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, equal, pin = line.strip().partition("==")
        if not equal or re.search(r"[\s*;,<>=]", pin):
            raise UserError(f"{path}: {line}: a line is NAME==VERSION, so that every build takes the same")
        found[name] = pin
    return found


def left_in(lock: dict[str, str], *, only: str, without: str) -> dict[str, str]:
    """What an image has of the lock. only, without: the Dockerfile's arguments, regular expressions of whole names."""
    return {name: pin for name, pin in lock.items() if re.fullmatch(only, name) and not re.fullmatch(without, name)}
