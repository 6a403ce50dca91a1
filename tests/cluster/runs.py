"""Runs at a test's scheduler, through make as a user has them, and what becomes of them."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.metrics import read_metrics
from pipeline.run_folder import RunFolder
from tests import of_make
from tests.cluster.scheduler_hosts import SchedulerHosts

LIMIT_S = 150
"""Waiting long costs nothing where it is not needed; other tests may have the cores."""

SCALE_MODEL = (
    "scale=544 site.device=cpu site.backend=gloo site.binding=none model=small_resnet data=sample container=none "
    "precision.compute=fp32 "
    "data.decoder=torchvision run.tensorboard=false "
    "site.modules=[] site.cards=[] site.interface=null site.require_ib=false site.gpus_per_node=null "
    "+site.environment.OMPI_MCA_mpi_yield_when_idle=1"
)
"""A cluster's site with the sample and CPUs, as a try-out without GPUs has it.

Waiting ranks leave the cores to others; they start a fifth quicker without DALI, which other tests have."""

STAND_IN = """#!/bin/bash
# In the place of a rank's Python: says that it is ready, then waits. Started again, it is done.
run=$3
attempt=$(ls -d "$run"/attempts/* | sort -V | tail -n 1)
[ "${attempt##*/}" = 0 ] || { touch "$attempt/done"; exit 0; }
[ "${OMPI_COMM_WORLD_RANK:-0}" != 0 ] || touch "$attempt/ready"
exec sleep 600
"""


DONE = """#!/bin/bash
# In the place of a rank's Python: is done at once, and says where.
attempt=$(ls -d "$3"/attempts/* | sort -V | tail -n 1)
uname -n > "$attempt/rank-$OMPI_COMM_WORLD_RANK-of-$OMPI_COMM_WORLD_SIZE"
touch "$attempt/ready" "$attempt/done"
"""

SAVES = """#!/bin/bash
# In the place of a rank's Python: saves when it is asked to, and is done in the next attempt.
attempt=$(ls -d "$3"/attempts/* | sort -V | tail -n 1)
[ "${attempt##*/}" = 0 ] || { touch "$attempt/done"; exit 0; }
trap 'exit 85' USR2
touch "$attempt/ready"
while :; do sleep 0.1; done
"""


@dataclass(frozen=True)
class Runs:
    """Runs at one scheduler."""

    cluster: SchedulerHosts
    site: str
    folder: Path
    words: str
    """Overrides of every run, beside those of the scale model."""
    nodes: int = 1
    """Of a run that is out of time."""
    placement: str = "replicated"
    """Of the samples of a run on two nodes."""

    def make(
        self, *words: str, check: bool = True, env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        own = [word for name in sorted(of_make.VARIABLES) for word in ("--unset", name)]
        return self.cluster.run(["env", *own, "make", *words], cwd=REPOSITORY, check=check, timeout=LIMIT_S, env=env)

    def arguments(self, words: str) -> str:
        return f"ARGS={SCALE_MODEL} {self.words} {words}"

    def submit(self, name: str, words: str, *variables: str, env: Mapping[str, str] | None = None) -> RunFolder:
        """Submit a run of Exp. 5; its folder."""
        folder = RunFolder(self.folder / name)
        done = self.make(
            "submit",
            "EXP=5",
            f"SITE={self.site}",
            *variables,
            self.arguments(f"run.dir={folder.path} {words}"),
            env=env,
        )
        assert done.stdout.startswith("job "), done.stdout + done.stderr
        assert done.stdout.strip().endswith(f"at {self.site}, run folder: {folder.path}")
        return folder

    def stand_in(self, text: str | None = None) -> str:
        """The override that has a program run in the place of training; None: one that waits."""
        path = self.folder / f"stand-in-{abs(hash(text))}"
        path.write_text(text or STAND_IN)
        path.chmod(0o755)
        return f"site.python={path}"

    def row(self, run: RunFolder) -> dict[str, Any]:
        """What `make status` says of a run."""
        done = self.cluster.run([sys.executable, "-m", "jobs.status", "--json", str(run.path)], cwd=REPOSITORY)
        (row,) = json.loads(done.stdout)
        return dict(row)

    def until(self, run: RunFolder, states: Sequence[str], why: str = "") -> dict[str, Any]:
        """Ask for a run until it is in one of some states, for a reason that begins so; the row that says so."""
        ends = time.monotonic() + LIMIT_S
        while (row := self.row(run))["state"] not in states or not row["why"].startswith(why):
            assert time.monotonic() < ends, f"{row}\n{everything(run)}"
            time.sleep(1.5)  # a question starts a Python: those of two schedulers' tests would take a core
        return row

    def wait_for_an_end(self, run: RunFolder) -> None:
        """Wait, without asking anybody, until an attempt has ended that is not to be followed, or for a while."""
        ends = time.monotonic() + LIMIT_S / 2
        while run.exit_code(run.latest_attempt()) in (None, 85) and time.monotonic() < ends:
            time.sleep(0.2)

    def finished(self, run: RunFolder) -> dict[str, Any]:
        """Wait until a run is done; its result."""
        self.wait_for_an_end(run)
        row = self.until(run, ["done", "failed", "lost", "saved", "cancelled"])
        assert row["state"] == "done", f"{row}\n{everything(run)}"
        result = run.read_result()
        assert result is not None
        return result


REPOSITORY = Path(__file__).resolve().parent.parent.parent


def wait_for(path: Path, run: RunFolder) -> None:
    """Wait until a file of a run is there."""
    ends = time.monotonic() + LIMIT_S
    while not path.exists():
        assert time.monotonic() < ends, f"{path} never came\n{everything(run)}"
        time.sleep(0.1)


def losses(run: RunFolder) -> list[float]:
    """The loss of every update."""
    return [line["loss"] for line in read_metrics(run.metrics)]


def exits(run: RunFolder) -> list[int | None]:
    """The exit codes of a run's attempts, in order."""
    attempts = sorted(run.attempts.iterdir(), key=lambda attempt: int(attempt.name))
    return [run.exit_code(attempt) for attempt in attempts]


def everything(run: RunFolder) -> str:
    """What a run left, for whoever reads why a test failed."""
    logs = [*sorted(run.log.glob("*.log")), *sorted(run.attempts.glob("*/errors/*"))]
    return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)
