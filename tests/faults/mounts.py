"""File systems that are small, full, read-only or gone, for one test's processes alone: a mount namespace of its own.

It ends with the process that holds its pipe, and everything mounted in it goes then. Needs root.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self


class Mounts:
    """`with Mounts() as mounts:` is a namespace that begins with what is mounted here."""

    def __enter__(self) -> Self:
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", "echo; exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._holder.stdout is not None, "it is a pipe"
        self._holder.stdout.readline()  # it is there now
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.wait()
        self._holder.stdout.close()

    def command(self, words: Sequence[str]) -> list[str]:
        """The command line that runs `words` in the namespace, in this working directory."""
        inside = ["nsenter", "--target", str(self._holder.pid), "--mount", "--", "env", f"--chdir={Path.cwd()}"]
        return [*inside, *words]

    def run(self, *words: str) -> None:
        """Run a command in the namespace; it must succeed."""
        subprocess.run(self.command(words), check=True, capture_output=True)

    def small(self, path: Path, size_bytes: int) -> None:
        """Put a file system of so many bytes in the place of a folder."""
        self.run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "small", str(path))

    def fill(self, path: Path) -> None:
        """Fill the file system of a folder to its last byte."""
        free = os.statvfs(self.path(path))
        self.run("fallocate", "--length", str(free.f_bavail * free.f_frsize), str(path / "filler"))

    def make_read_only(self, path: Path) -> None:
        """Let nothing be opened for writing below a folder any more; what is open stays so."""
        self.run("mount", "--bind", str(path), str(path))
        self.run("mount", "-o", "remount,bind,ro", str(path))

    def path(self, path: Path) -> Path:
        """Where this process finds what the namespace has at the absolute `path`."""
        return Path(f"/proc/{self._holder.pid}/root{path}")


def missing() -> str:
    """What this machine lacks for it; empty when nothing does."""
    if os.geteuid() != 0:
        return "root is needed to mount"
    absent = [name for name in ("unshare", "nsenter", "mount", "fallocate") if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not found"
    refused = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True, check=False
    )
    return "the kernel refuses mount namespaces" if refused.returncode else ""
