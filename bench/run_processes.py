"""The processes of a run, found by its folder in their command lines: to strike one, or to look for leftovers."""

import contextlib
from pathlib import Path

from pipeline.run_folder import RunFolder


def processes(folder: RunFolder) -> list[int]:
    """Every process of a run: its script, mpirun and the ranks name its folder. Rising."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode().split("\0")
            if any(word.startswith(str(folder.path)) for word in words) and not words[0].endswith("make"):
                found.append(int(path.parent.name))
    return sorted(found)


def of_rank(folder: RunFolder, rank: int) -> int | None:
    """The process that mpirun calls `rank`; None where there is none."""
    word = f"OMPI_COMM_WORLD_RANK={rank}"
    return next((pid for pid in processes(folder) if word in _words(pid, "environ")), None)


def of_mpirun(folder: RunFolder) -> int | None:
    """The process of mpirun; None where there is none."""
    found = (pid for pid in processes(folder) if Path(_words(pid, "cmdline")[0]).name in ("mpirun", "prterun"))
    return next(found, None)


def of_script(folder: RunFolder) -> int | None:
    """The process of the job script, not those of its timers; None where there is none."""
    own = [pid for pid in processes(folder) if _words(pid, "cmdline")[1:2] == [str(folder.script)]]
    return next((pid for pid in own if _parent(pid) not in own), None)


def _words(pid: int, file: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return [""]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
