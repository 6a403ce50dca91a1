"""What a run leaves, and where: the one place that knows.

    config.yaml       the resolved configuration          overrides.yaml   the words it was composed from
    job.sh            the job script                      environment.txt  packages, versions, commit, hosts
    log/              job.log and one file a rank         metrics.jsonl    a line an update, written by rank 0
    checkpoints/      update-000500.pt, …; model.pt       result.json      the outcome, once there is one
    attempts/N/       job_id, hosts, starting/rank-R, hung, ready, stop, stuck, totals.json, done, exit, errors/,
                      reserve
    evaluations.jsonl what `make evaluate` found
    submissions.jsonl a line a job that was submitted     submission/      what submitit keeps of it
    starts            how often it was started again      cancelled        a mark: it is not to be started again
    events/           the same for TensorBoard            validations.jsonl  a line a validation
    slow.jsonl        a line an update that was slow
    profile/          traces, where asked for             mlperf.log       the run as MLPerf's rules log it
    plots/            what `make plot` draws

Attempt N is opened by the job script before anything else, and its exit code is written last: 0 done, 85 saved and to
be started again, anything else failed. Torch-free.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

from pipeline.errors import UserError
from pipeline.starting import hung
from pipeline.stored_json import parse

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_SAVED = 85

SUFFIXES = {"mistake": "", "fault": ".fault", "guess": ".guess", "effect": ".effect"}
"""Of the files of last lines: what a user can mend; a fault; what one that was cut off from the others takes for the
cause; what was met before the cause was known."""

Kind = Literal["mistake", "fault", "guess", "effect"]

OF_A_FILE_SYSTEM = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.ESTALE, errno.EIO,
}  # fmt: skip
"""What a file system says for itself, also where an error names no file: it is met when a buffer is written."""

JOB_ID = re.compile(r"\d[A-Za-z0-9_.\[\]-]*")
"""A job as schedulers call it: 7, 7_1, 7[1].server, 7.1. What else stands in its place could be an option to them."""

OF_A_RESULT = ("complete", "updates", "top1", "images_per_s")
"""Keys of result.json without which nothing can be said of a run."""


class RunFolder:
    """The paths of one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.config = self.path / "config.yaml"
        self.overrides = self.path / "overrides.yaml"
        self.script = self.path / "job.sh"
        self.environment = self.path / "environment.txt"
        self.log = self.path / "log"
        self.job_log = self.log / "job.log"
        self.all_reduce = self.path / "allreduce.json"
        self.metrics = self.path / "metrics.jsonl"
        self.validations = self.path / "validations.jsonl"
        self.slow_updates = self.path / "slow.jsonl"
        self.events = self.path / "events"
        self.mlperf_log = self.path / "mlperf.log"
        self.profile = self.path / "profile"
        self.plots = self.path / "plots"
        self.checkpoints = self.path / "checkpoints"
        self.model = self.checkpoints / "model.pt"
        self.result = self.path / "result.json"
        self.evaluations = self.path / "evaluations.jsonl"
        self.attempts = self.path / "attempts"
        self.submissions = self.path / "submissions.jsonl"
        self.submission = self.path / "submission"
        self.starts = self.path / "starts"
        self.cancelled = self.path / "cancelled"

    def __str__(self) -> str:
        """The path as a person at the current folder would write it."""
        try:
            return str(self.path.relative_to(Path.cwd()))
        except ValueError:
            return str(self.path)

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, rename: bool = False) -> "RunFolder":
        """Make a new run folder, mode 0700.

        rename: take the next free PATH-2, PATH-3, … where PATH stands already; otherwise that raises UserError, as does
        a folder that cannot be made.
        """
        wanted = Path(path).absolute()
        try:
            wanted.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"run.dir {path} cannot be made: {error.strerror}") from None
        names = (wanted.with_name(f"{wanted.name}-{number}") for number in count(2))
        for candidate in chain([wanted], names):
            folder = cls(candidate)
            try:
                for made in (folder.path, folder.log, folder.checkpoints, folder.attempts):
                    made.mkdir(mode=0o700)
                    made.chmod(0o700)  # whatever the umask takes away
                return folder
            except FileExistsError:
                if not rename:
                    message = f"run.dir {path} exists already; name another, or go on with it by RESUME={path}"
                    raise UserError(message) from None
            except OSError as error:
                raise UserError(f"run.dir {path} cannot be made: {error.strerror}") from None
        raise AssertionError("there is always a next number")

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunFolder":
        """An existing run folder. Raises UserError where there is none."""
        folder = cls(path)
        try:
            if not folder.path.is_dir():
                raise UserError(f"{path}: no such run folder")
            if not folder.config.is_file():
                raise UserError(f"{path}: no config.yaml in it, so it is not a run folder")
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}") from None
        for inner in (folder.log, folder.checkpoints, folder.attempts):
            try:
                inner.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise UserError(f"{inner} cannot be made: {error.strerror}") from None
        return folder

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While the body writes into the run folder: raises UserError where its file system refuses."""
        try:
            yield
        except OSError as error:
            within = error.filename is not None and str(error.filename).startswith(str(self.path))
            if not within and (error.filename is not None or error.errno not in OF_A_FILE_SYSTEM):
                raise
            gone = "" if self.path.is_dir() else f"; the run folder {self} is gone"
            raise UserError(f"{error.filename or self} cannot be written: {error.strerror}{gone}") from None

    def rank_log(self, rank: int) -> Path:
        return self.log / f"rank-{rank}.log"

    def checkpoint(self, update: int) -> Path:
        """The file of the state after `update` updates."""
        return self.checkpoints / f"update-{update:06d}.pt"

    def saved_updates(self) -> list[int]:
        """The updates that have a checkpoint, rising."""
        found = (re.fullmatch(r"update-([0-9]{6,12})\.pt", path.name) for path in self.checkpoints.glob("update-*.pt"))
        updates = sorted(int(one[1]) for one in found if one)
        return [update for update in updates if os.path.lexists(self.checkpoint(update))]

    def is_running(self) -> bool:
        """Whether a script of this run is alive: it and all its processes hold the lock on attempts/.

        Where a file system has no locks, as some clusters', only a scheduler knows, and this says no.
        """
        descriptor = os.open(self.attempts, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who ask take neither for the run
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False

    def latest_attempt(self) -> Path | None:
        """The folder of the newest attempt; None before the first."""
        numbers = [int(path.name) for path in self.attempts.glob("*") if path.name.isdigit()]
        return self.attempts / str(max(numbers)) if numbers else None

    def exit_code(self, attempt: Path | None) -> int | None:
        """What the script of an attempt wrote last; None before that, and where it could not."""
        try:
            return int((attempt / "exit").read_text()) if attempt else None
        except (OSError, ValueError):
            return None

    def not_again(self, attempt: Path) -> str:
        """Why an attempt that saved was not followed by another, in one line; empty where it said nothing."""
        path = attempt / "not_again"
        return " ".join(path.read_text().split()) if path.exists() else ""

    def note_submission(self, scheduler: str, job_ids: Sequence[str]) -> None:
        """Add a line for what was submitted: a job and those that wait for its end. The job script adds lines too."""
        line = {"scheduler": scheduler, "job_ids": list(job_ids), "submitted_at": int(time.time())}
        with self.submissions.open("ab+") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            torn = file.read(1) not in (b"", b"\n")  # a disk was full: the next line must not be lost with that one
            file.write(b"\n" * torn + json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def job_ids(self) -> list[str]:
        """The jobs of the newest submission, in order; empty where nothing was submitted.

        Raises UserError where the record cannot be read: a job may be in the queue that nobody knows of.
        """
        try:
            lines = self.submissions.read_text().splitlines()
            ids = [str(job_id) for job_id in json.loads(lines[-1])["job_ids"]] if lines else []
            if all(map(JOB_ID.fullmatch, ids)):
                return ids
        except FileNotFoundError:
            return []
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            pass
        raise UserError(
            f"{self.submissions} is damaged, so nobody knows the run's job; look for it in the queue, and remove "
            "that file once there is none"
        )

    @contextlib.contextmanager
    def submitting(self) -> Iterator[None]:
        """Hold the run for a submission or a start, since two at once would take turns at one folder.

        Raises UserError where it is held. A folder is locked: a file would be another one once it is written.
        """
        lock = -1
        try:
            lock = os.open(self.log, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            line = f"{self} is being started or submitted by somebody else just now; see make status"
            raise UserError(line) from None
        except OSError:  # a file system without locks
            pass
        try:
            yield
        finally:
            if lock >= 0:
                os.close(lock)

    def last_words(self, log: Path) -> str:
        """The last line of a log that says something; of a long log only the end is read."""
        lines = self.end_of(log).splitlines()
        said = next((line for line in reversed(lines) if any(map(str.isalnum, line))), "")
        return " ".join("".join(one if one.isprintable() else " " for one in said).split())  # mpirun's may hold a NUL

    def end_of(self, log: Path) -> str:
        """The last few thousand characters of a log; empty where there is none."""
        try:
            check_regular(log)
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - 8192))
                return file.read().decode(errors="replace")
        except (OSError, UserError):
            return ""

    def hung(self) -> str:
        """Where ranks stood when the script ended the newest attempt's start, in one line; empty for any other."""
        return hung(self.latest_attempt())

    def errors(self) -> list[str]:
        """The lines that ranks of the newest attempt left before they stopped: the cause first.

        When one rank stops, others fail because of it; what a user can mend comes before faults, those before a start
        that hung, that before what a rank could say before it knew the cause, and of each the earlier first.
        """
        attempt = self.latest_attempt()
        paths = list((attempt / "errors").glob("*")) if attempt else []
        order = list(SUFFIXES.values())
        paths.sort(key=lambda path: (order.index(path.suffix), path.stat().st_mtime_ns))
        causes = [path.read_text().strip() for path in paths if path.suffix != SUFFIXES["effect"]]
        effects = [path.read_text().strip() for path in paths if path.suffix == SUFFIXES["effect"]]
        return [*causes, *filter(None, [self.hung()]), *effects]

    def read_result(self) -> dict[str, Any] | None:
        """result.json; None where the run has none."""
        try:
            check_regular(self.result)
            result: dict[str, Any] = parse(self.result.read_text())
            if _is_result(result):
                return result
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UserError(f"{self.result} cannot be read: {error.strerror}") from None
        except (ValueError, TypeError, AttributeError, RecursionError):
            pass
        raise UserError(f"{self.result} is damaged; remove it, and the run can go on")


def _is_result(found: dict[str, Any]) -> bool:
    """Whether what is said of a run by everybody who lists runs is there, as numbers."""
    top1, speed = found.get("top1"), found.get("images_per_s")
    return (
        all(key in found for key in OF_A_RESULT)
        and isinstance(found["updates"], int)
        and isinstance(top1, int | float | None)
        and isinstance(speed, int | float)
    )


def check_regular(path: Path) -> None:
    """Raise UserError for what is there and is no regular file: a pipe would never come to an end."""
    try:
        mode = path.stat().st_mode
    except OSError:  # told by who opens it
        return
    if not stat.S_ISREG(mode):
        raise UserError(f"{path} is not a regular file")


def write_error(attempt: Path | None, rank: int, line: str, kind: Kind) -> None:
    """Leave a rank's last line where a person finds it; mpirun shows it to nobody.

    On a full disk it takes the place that the job script has reserved. Raises OSError where nothing can be written.
    """
    if attempt is None:
        return
    path = attempt / "errors" / f"rank-{rank}{SUFFIXES[kind]}"
    try:
        _write_error(path, line)
    except OSError:
        (attempt / "reserve").unlink(missing_ok=True)
        _write_error(path, line)


def _write_error(path: Path, line: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(line + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Write a file that is whole or absent, whatever happens meanwhile."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error tells more
            temporary.unlink()
        raise
