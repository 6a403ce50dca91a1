"""What a DATA folder keeps of its preparation, in .prepare/: a lock, and a record of each shard that is complete.

A record is written last, so what has one is whole. It names what the shard was made from; a shard whose source and
options are the same is kept when `make prepare` runs again.
"""

import contextlib
import errno
import fcntl
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.data.prepare.plan import PlannedShard
from pipeline.data.prepare.source import TRAIN, Oddity
from pipeline.data.shards import tsv
from pipeline.errors import UserError
from pipeline.run_folder import write_atomically

OURS = re.compile(r"(train|validation)-\d{6}\.(tar|tsv|json)|manifest\.json|report\.txt")
UNFINISHED = re.compile(rf"\.({OURS.pattern})(\.[\w.-]+)?\.\d+")


@dataclass(frozen=True)
class Record:
    """One complete shard."""

    fingerprint: str
    entry: dict[str, Any]
    """Its part of the manifest."""
    index_bytes: int
    oddities: list[Oddity]


class DataFolder:
    """A folder of shards, and what is kept of their preparation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = path / "manifest.json"
        self.report = path / "report.txt"
        self._records = path / ".prepare"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder, made if need be, so that nobody else prepares into it.

        Raises UserError where somebody does, and where it holds what `make prepare` did not write.
        """
        try:
            self._open()
            lock = (self._records / "lock").open("w")
        except OSError as error:
            raise UserError(_why(self.path, error)) from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{self.path} is being prepared by another make prepare; wait for its end") from None
            except OSError:  # a file system without locks
                pass
            self._remove_unfinished()
            try:
                yield
            finally:
                self._remove_unfinished()

    def _open(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        if not self._records.is_dir():
            others = sorted(path.name for path in self.path.iterdir() if OURS.fullmatch(path.name))
            if others:
                raise UserError(
                    f"{self.path} holds {others[0]}, which make prepare did not write there; name a new folder in DATA"
                )
            self._records.mkdir(exist_ok=True)

    def _remove_unfinished(self) -> None:
        """Remove what a run that was killed had not finished."""
        for folder in (self.path, self._records):
            for path in folder.glob(".*"):
                if UNFINISHED.fullmatch(path.name):
                    path.unlink(missing_ok=True)

    def record(self, name: str) -> Record | None:
        """The record of a shard; None where there is none, or the shard's files are not what it says."""
        try:
            found = json.loads((self._records / f"{name}.json").read_text())
            oddities = [Oddity(**oddity) for oddity in found.pop("oddities")]
            record = Record(**found, oddities=oddities)
            sizes = {f"{name}.tar": record.entry["bytes"], f"{name}.tsv": record.index_bytes}
            whole = all((self.path / file).stat().st_size == size for file, size in sizes.items())
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None
        return record if whole else None

    def note(self, shard: PlannedShard, entry: dict[str, Any], oddities: list[Oddity]) -> Record:
        """Write the record of a shard that is complete."""
        index_bytes = (self.path / tsv(entry["name"])).stat().st_size
        record = Record(shard.fingerprint(), entry, index_bytes, oddities)
        write_atomically(self._records / f"{shard.name}.json", json.dumps(asdict(record)) + "\n")
        return record

    def recorded(self) -> dict[str, str]:
        """The fingerprints of all shards that have a record, whole or not, by name."""
        found = {}
        for path in sorted(self._records.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
                found[path.stem] = str(json.loads(path.read_text())["fingerprint"])
        return found

    def lacks_validation(self, paths: Sequence[Path]) -> bool:
        """Whether a finished data set of this source is there that has no images to validate with."""
        try:
            found = json.loads(self.manifest.read_text())
            return found["from"] == [str(path) for path in paths] and list(found["splits"]) == [TRAIN]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return False

    def remove_all_but(self, names: Collection[str]) -> None:
        """Remove shards of an earlier plan, which had more of them."""
        for name in set(self.recorded()) - set(names):
            for path in (self._records / f"{name}.json", self.path / f"{name}.tar", self.path / f"{name}.tsv"):
                path.unlink(missing_ok=True)


def _why(path: Path, error: OSError) -> str:
    """Why a folder cannot be held."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists() or one.is_symlink())
    if not there.exists():
        return f"{path} cannot be made: {there} is a link to nothing"
    if not there.is_dir():
        return f"{path} cannot be a folder: {there} is a file"
    if there == path:
        return f"{path} cannot be written to: {error.strerror}"
    reason = "no folder can be made there" if error.errno == errno.ENOENT else error.strerror
    return f"{path} cannot be made in {there}: {reason}"
