"""A run on emulated hosts, started by its own script on the first of them: for the tests of faults and the soak.

The configuration is that of `make train`, the script that of jobs.script; only mpirun's words are the hosts'.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.emulated_hosts import EmulatedHosts, mpirun_words
from jobs import local, prepare
from jobs.compose import REPOSITORY, compose
from jobs.script import render
from pipeline.config import make_plan
from pipeline.run_folder import RunFolder

END_S = 15
"""That a launcher has to end when a rank has failed."""


def make(hosts: EmulatedHosts, path: Path, words: Sequence[str]) -> RunFolder:
    """A new run folder. words: Hydra's, beside those that the hosts ask for; workers are dealt to the hosts evenly."""
    words = [*words, f"site.interface={hosts.interface}", f"run.dir={path}"]
    config = compose(words)
    folder = prepare.create(config, words)
    workers = make_plan(config).workers
    launch = mpirun_words(
        hosts,
        workers // hosts.nodes,
        [sys.executable, "-m", "pipeline.train", str(folder.path)],
        environment={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)},
    )
    folder.script.write_text(
        render(
            folder=folder,
            repository=REPOSITORY,
            launch=[sys.executable, "-m", "jobs.tied", *launch],
            threads=1,
            end_timeout_s=END_S,
            title=f"Torus224, {config.experiment}, on {hosts.nodes} emulated hosts",
        )
    )
    return folder


def start(hosts: EmulatedHosts, folder: RunFolder) -> "subprocess.Popen[bytes]":
    """Start the run, or go on with it; what it starts on the hosts ends by itself, or stays until they end."""
    with folder.job_log.open("ab") as log:
        return subprocess.Popen(
            hosts.outlived_command(0, ["/bin/bash", str(folder.script)], REPOSITORY),
            env=local.environment() | {"TORUS224_LIVE": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
