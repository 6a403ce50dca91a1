"""The parts of a job script, as text. A pure function of its arguments: no scheduler, no MPI, no torch is asked.

The script is the host part of a run: it opens an attempt, starts the ranks by mpirun, hands USR2 on to them (save and
stop), and writes their exit code last. Every word that comes from a configuration is quoted for the shell.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from pipeline.run_folder import RunFolder

ENVIRONMENT_OF_A_RANK = {
    "PYTHONUNBUFFERED": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

SEGMENTS = "/dev/shm/torus224-mpi"
"""Open MPI's shared memory of a run lies in a folder of this name with the user's and the script's number behind it."""


def quote(words: Sequence[str | Path]) -> str:
    """A command line of which a shell makes exactly these words."""
    return shlex.join(str(word) for word in words)


def render(*, folder: RunFolder, repository: Path, launch: Sequence[str], threads: int, title: str) -> str:
    """The script of a run.

    launch: the command that starts all ranks, words. threads: CPU threads a rank.
    """
    environment = {**ENVIRONMENT_OF_A_RANK, "OMP_NUM_THREADS": str(threads)}
    segments = shlex.quote(SEGMENTS)
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())
    return f"""#!/bin/bash
# {_comment(title)}
# The same script starts the run again: ranks go on from its newest checkpoint.
# USR2 makes the ranks save and stop (exit code 85); TERM ends them at once.
set -u
umask 077
run_folder={shlex.quote(str(folder.path))}
attempts=$run_folder/attempts
cd {shlex.quote(str(repository))} || exit 1
export HOME="${{HOME:-$run_folder}}"  # Open MPI does not start without one

# One script a run folder: every process of the run inherits this lock.
exec 8< "$attempts" || exit 1
flock --nonblock 8 || {{ echo "$run_folder is running already" >> "$run_folder/log/job.log"; exit 1; }}

# Attempt N, opened before anything else. Until the ranks say that they are ready, USR2 would end them: a request to
# stop is only noted then, and they look for it once they have said so.
attempt=0
while [ -e "$attempts/$attempt" ]; do attempt=$((attempt + 1)); done
mkdir "$attempts/$attempt" || exit 1
launcher=
waiting=1
code=1
tell() {{ waiting=1; [ -z "$launcher" ] || kill "$1" "$launcher" 2>/dev/null; }}
trap 'waiting=1; : > "$attempts/$attempt/stop"; [ ! -e "$attempts/$attempt/ready" ] || tell -USR2' USR2
trap 'tell -TERM' TERM INT HUP
echo "$$" > "$attempts/$attempt/job_id"
TORUS224_STARTED=$(date +%s.%N)
export TORUS224_STARTED
{exports}
export PYTHONPATH={shlex.quote(str(repository))}

# Open MPI's shared memory gets a folder of its own, so that nothing of it outlives the run. The lock is inherited by
# every process of the run and so is free only when all are dead: what a killed run left is removed by the next one.
segments={segments}-$UID
for old in "$segments"-*/lock; do
    [ -e "$old" ] && flock --nonblock "$old" rm -rf "${{old%/lock}}"
done
segments=$segments-$$
mkdir -m 700 "$segments" || exit 1
exec 9> "$segments/lock"
flock --nonblock 9
trap 'rm -rf "$segments"' EXIT
export OMPI_MCA_btl_sm_backing_directory="$segments"

{quote(launch)} 2>> "$run_folder/log/job.log" &
launcher=$!
# A trap interrupts wait: wait again until it returns the launcher's own code (127: it was taken already).
while [ "$waiting" = 1 ]; do
    waiting=0
    wait "$launcher"
    status=$?
    [ "$status" = 127 ] || code=$status
done
echo "$code" > "$attempts/$attempt/exit"
exit "$code"
"""


def _comment(text: str) -> str:
    return " ".join(text.split())
