"""What a run was made with, for its environment.txt: host, Python, commit, packages with versions."""

import os
import platform
import socket
import subprocess
from importlib.metadata import distributions
from pathlib import Path


def describe(repository: Path) -> str:
    """The text of environment.txt."""
    packages = sorted({f"{one.metadata['Name']}=={one.version}" for one in distributions()}, key=str.lower)
    lines = [
        f"host {socket.gethostname()}",
        f"system {platform.platform()}",
        f"processor {processor()}",
        f"python {platform.python_version()}",
        f"commit {commit(repository)}",
        "",
        *packages,
    ]
    return "\n".join(lines) + "\n"


def processor() -> str:
    """`Intel(R) Xeon(R) …, 2 cores`: of the machine that composes a run, at a cluster a login node."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{name or platform.machine()}, {os.cpu_count()} cores"


def commit(repository: Path) -> str:
    """The commit of the working tree, with `+changes` where it differs from it; `unknown` outside git."""
    head = _git(repository, "rev-parse", "HEAD")
    if head is None:
        return "unknown"
    return head + ("+changes" if _git(repository, "status", "--porcelain", "--untracked-files=no") else "")


def _git(repository: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), *words], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
