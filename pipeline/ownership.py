"""Whose a folder is: what it says is only done, and a pickle in it only read, where nobody else could have written it.

Root is nobody else: it can do everything anyway. Torch-free.
"""

import os
import pwd
import stat
from pathlib import Path

from pipeline.errors import UserError

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
OTHERS_ENTER = stat.S_IXGRP | stat.S_IXOTH


def check_own(folder: Path) -> None:
    """Raise UserError where somebody else owns a run folder, anything in it, or a checkpoint, or could write there.

    Of a link, what it leads to counts. Where others cannot enter, the modes of what is inside do not matter.
    """
    entered = bool(folder.stat().st_mode & OTHERS_ENTER)
    checkpoints = folder / "checkpoints"
    for path in (folder, *sorted(folder.iterdir()), *(sorted(checkpoints.iterdir()) if checkpoints.is_dir() else ())):
        try:
            found = path.stat()
        except FileNotFoundError:  # a link that leads nowhere, or a file that went meanwhile
            continue
        if why := _why_not_own(found, modes=entered or path == folder):
            raise UserError(
                f"{path} {why}, so what is in {folder} may be somebody else's words; go on with a run of your own, "
                f"whose folder nobody else can write (chmod -R go-w {folder})"
            )


def exposed(path: Path) -> str:
    """Which folder above a path somebody else could change, so as to put another in its place; empty where none."""
    for folder in path.absolute().parents:
        try:
            found = folder.stat()
        except OSError:
            continue
        sticky = found.st_mode & stat.S_ISVTX and found.st_uid in (0, os.getuid())
        if not sticky and (why := _why_not_own(found)):
            return f"{folder} {why}"
    return ""


def _why_not_own(found: os.stat_result, *, modes: bool = True) -> str:
    if found.st_uid not in (0, os.getuid()):
        return f"belongs to {_name(found.st_uid)}"
    if modes and found.st_mode & OTHERS_WRITE:
        return f"can be written by others (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
