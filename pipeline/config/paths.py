"""Paths as a person gives them in key=value words. Torch-free."""

from pathlib import Path

from pipeline.errors import UserError


def check_written_out(key: str, path: str) -> None:
    """Raise UserError for a path that is none, or that only a shell would read as it is meant."""
    if not path.strip():
        raise UserError(f"{key} is empty; name a path")
    if path.startswith("~"):
        home = path.replace("~", str(Path.home()), 1) if path.partition("/")[0] == "~" else "that folder"
        raise UserError(f"{key}={path}: ~ is a home folder for a shell only; write {home}")
