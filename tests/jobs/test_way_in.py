"""A real run of one node, started as carelessly as can be: who could listen in, what is readable, what it tells."""

import contextlib
import os
import signal
import stat
import subprocess
import time
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import pytest

from pipeline.run_folder import RunFolder
from tests.jobs.test_make import environment, processes

SECRETS = {
    "HF_TOKEN": "hf_canaryCanary1",
    "WANDB_API_KEY": "canary2canary2",
    "AWS_SECRET_ACCESS_KEY": "canary3/canary3+",
    "https_proxy": "http://user:canary4@proxy.example:3128",
    "SLURM_JWT": "canary5canary5",
    "DB_PASSWORD": "canary6 canary6",
}
"""As a shell may have them."""


@dataclass(frozen=True)
class Seen:
    """What was seen of a run."""

    folder: RunFolder
    listening: set[tuple[str, str]]
    """(program, address) of every socket that listened while it trained."""
    output: str


@pytest.fixture(scope="module")
def seen(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    words = ["make", "train", "EXP=5", "WORKERS=2", f"ARGS=run.dir={folder.path}"]
    with subprocess.Popen(
        words, cwd=repository, env=environment() | SECRETS, umask=0, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as process:  # fmt: skip
        for _ in range(600):
            if process.poll() is not None or (folder.metrics.exists() and folder.metrics.stat().st_size):
                break
            time.sleep(0.1)
        found = listening(processes(folder))
        os.kill(int((folder.attempts / "0" / "job_id").read_text()), signal.SIGUSR2)
        output, _ = process.communicate(timeout=60)
    assert folder.saved_updates(), output
    return Seen(folder, found, output)


def listening(pids: list[int]) -> set[tuple[str, str]]:
    """(program, address) of the TCP sockets on which processes listen, as proc(5) shows them."""
    addresses = {}
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A":
                words = bytes.fromhex(fields[1].partition(":")[0])
                address = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
                addresses[f"socket:[{fields[9]}]"] = str(ip_address(address))
    found = set()
    for pid in pids:
        program = Path(f"/proc/{pid}/comm").read_text().strip()
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if (leads_to := str(descriptor.readlink())) in addresses:
                    found.add((program, addresses[leads_to]))
    return found


def test_ranks_of_one_node_listen_on_loopback_alone(seen: Seen) -> None:
    of_ranks = {address for program, address in seen.listening if program.startswith("python")}
    assert of_ranks == {"127.0.0.1"}
    others = {program for program, address in seen.listening if not ip_address(address).is_loopback}
    assert others <= {"prterun"}, "Open MPI's launcher, which cannot be told where to listen: docs/security.md"


def test_nothing_of_a_run_is_for_others_whatever_the_umask(seen: Seen) -> None:
    paths = [seen.folder.path, *seen.folder.path.rglob("*")]
    shared = {str(path): oct(path.stat().st_mode) for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077}
    assert shared == {}
    assert stat.S_IMODE(seen.folder.script.stat().st_mode) == 0o700


def test_no_file_of_a_run_and_nothing_that_it_prints_holds_a_secret(seen: Seen) -> None:
    files = [path for path in seen.folder.path.rglob("*") if path.is_file()]
    names = {path.relative_to(seen.folder.path).parts[0] for path in files}
    assert {
        "config.yaml",
        "overrides.yaml",
        "job.sh",
        "environment.txt",
        "mlperf.log",
        "log",
        "events",
    } <= names
    texts = {str(path): path.read_bytes() for path in files} | {"its output": seen.output.encode()}
    secret = [value.encode() for value in [*SECRETS.values(), "canary"]]
    assert [name for name, text in texts.items() if any(value in text for value in secret)] == []
