"""The same bytes, whoever does the work and however often it was stopped; what is complete is done once."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.data.prepare import ilsvrc
from tests.pipeline.data.prepare.command import ROOT, files, prepare
from tests.pipeline.data.prepare.conftest import WORDS

MPIRUN = (
    str(Path(sys.executable).with_name("mpirun")), "-n", "3", "--oversubscribe", "--bind-to", "none",
    "--allow-run-as-root", "--mca", "osc", "^ucx",
)  # fmt: skip

INSIDE_A_SHARD = """
import contextlib, os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from pipeline.data.prepare import __main__ as program, pack
seen = 0
def examine(*arguments):
    global seen
    seen += 1
    if seen == 137:
        os.kill(os.getpid(), signal.SIGKILL)
    return examined(*arguments)
examined, pack.examine = pack.examine, examine
program.processes = lambda count: contextlib.nullcontext((ThreadPoolExecutor(1), 1))
sys.exit(program.main(sys.argv[1:]))
"""

AFTER_THREE_SHARDS = """
import multiprocessing, os, signal, sys
from pipeline.data.prepare import __main__ as program, program as steps
class Progress(steps.Progress):
    shards = 0
    def add(self, images):
        self.shards += 1
        if self.shards == 3:
            WHOM
steps.Progress = Progress
if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:]))
"""
ITSELF = "os.kill(os.getpid(), signal.SIGKILL)"
ITS_PROCESSES = "[child.kill() for child in multiprocessing.active_children()]"


def run_script(script: str, data: Path, source: Path, processes: int) -> "subprocess.CompletedProcess[str]":
    """Prepare by a script in which something happens half way."""
    command = [sys.executable, "-c", script, f"--data={data}", f"--from={source}", f"--processes={processes}", *WORDS]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def hidden(folder: Path) -> set[str]:
    return {path.name for path in folder.glob(".*")}


@pytest.mark.parametrize("processes", [2, 3])
def test_any_number_of_processes_gives_the_same_bytes(
    tars: Path, prepared: Path, tmp_path: Path, processes: int
) -> None:
    done = prepare(tmp_path / "data", tars, *WORDS, processes=processes)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "data") == files(prepared)


def test_ranks_of_mpi_give_the_same_bytes(tars: Path, prepared: Path, tmp_path: Path) -> None:
    done = prepare(tmp_path / "data", tars, *WORDS, launcher=MPIRUN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("looking at") == 1
    assert files(tmp_path / "data") == files(prepared)


@pytest.mark.parametrize(
    ("script", "processes"), [(INSIDE_A_SHARD, 1), (AFTER_THREE_SHARDS.replace("WHOM", ITSELF), 2)]
)
def test_killed_in_the_middle_and_run_again_it_ends_with_the_same_bytes(
    tars: Path, prepared: Path, tmp_path: Path, script: str, processes: int
) -> None:
    data = tmp_path / "data"
    killed = run_script(script, data, tars, processes)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (data / "manifest.json").exists()
    whole = files(prepared)
    kept = {path.name: path.stat().st_ino for path in data.glob("train-*.tar")}
    assert len(kept) >= 3
    for name in kept:
        assert (data / name).read_bytes() == whole[name], name
    again = prepare(data, tars, *WORDS, processes=2)
    assert again.returncode == 0, again.stderr
    assert files(data) == whole
    recorded = [name for name in kept if (data / name).stat().st_ino == kept[name]]
    assert len(recorded) >= 3


def test_a_process_that_is_killed_is_told_in_a_line_and_the_next_run_goes_on(
    tars: Path, prepared: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    failed = run_script(AFTER_THREE_SHARDS.replace("WHOM", ITS_PROCESSES), data, tars, 2)
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: a process was killed")
    assert failed.stderr.count("\n") == 1
    assert hidden(data) == {".prepare"}
    assert prepare(data, tars, *WORDS).returncode == 0
    assert files(data) == files(prepared)


def test_run_again_it_writes_no_shard(tars: Path, prepared: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(prepared, data)
    before = {path.name: path.stat().st_ino for path in data.glob("*.t[as]*")}
    assert prepare(data, tars, *WORDS).returncode == 0
    assert {path.name: path.stat().st_ino for path in data.glob("*.t[as]*")} == before
    assert files(data) == files(prepared)


def test_a_shard_that_was_lost_or_cut_short_is_written_again(tars: Path, prepared: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(prepared, data)
    (data / "train-000001.tar").unlink()
    os.truncate(data / "train-000002.tsv", 100)
    assert prepare(data, tars, *WORDS).returncode == 0
    assert files(data) == files(prepared)


def test_a_finished_data_set_of_other_options_is_not_overwritten(tars: Path, prepared: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(prepared, data)
    refused = prepare(data, tars, *WORDS, "prepare.shorter_side=32")
    assert refused.returncode == 1
    assert f"{data} holds a finished data set of another source or other options" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert files(data) == files(prepared)


def test_what_was_left_of_another_source_is_written_anew(tars: Path, prepared: Path, tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    ilsvrc.write_all(other)
    os.utime(other / "ILSVRC2012_img_train.tar", (1, 1))
    assert prepare(data, other, "prepare.shard_bytes=50000").returncode == 1  # unreadable images, so no manifest
    assert len(list(data.glob("train-*.tar"))) > 20
    done = prepare(data, tars, *WORDS)
    assert done.returncode == 0, done.stderr
    assert "of another source or other options: written anew" in done.stdout
    assert files(data) == files(prepared)


def test_what_a_killed_run_left_half_written_is_removed_and_nothing_else(
    tars: Path, prepared: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(prepared, data)
    for name in (
        ".train-000007.tar.node9.123",
        ".manifest.json.77",
        ".prepare/.train-000007.json.123",
        ".mine",
        ".manifest.json.old",
        "notes",
    ):
        (data / name).write_bytes(b"half")
    assert prepare(data, tars, *WORDS).returncode == 0
    left = {path.name for path in data.iterdir()} - set(files(prepared))
    assert left == {".mine", ".manifest.json.old", ".prepare", "notes"}
    assert not hidden(data / ".prepare")


def test_two_at_once_are_refused(tars: Path, prepared: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(prepared, data)
    with (data / ".prepare" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = prepare(data, tars, *WORDS)
    assert refused.returncode == 1
    assert refused.stderr == f"error: {data} is being prepared by another make prepare; wait for its end\n"


def test_files_that_it_did_not_write_are_not_overwritten(tars: Path, tmp_path: Path) -> None:
    (tmp_path / "train-000000.tar").write_bytes(b"mine")
    refused = prepare(tmp_path, tars, *WORDS)
    assert refused.stderr == (
        f"error: {tmp_path} holds train-000000.tar, which make prepare did not write there; name a new folder in DATA\n"
    )
    assert (tmp_path / "train-000000.tar").read_bytes() == b"mine"


def test_a_data_folder_inside_the_source_is_refused(tars: Path) -> None:
    refused = prepare(tars / "shards", tars)
    assert refused.stderr == f"error: DATA={tars}/shards lies in FROM={tars}; name a folder outside of it\n"
    assert not (tars / "shards").exists()
