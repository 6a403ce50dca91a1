"""The job script of a run, as text. A pure function of its arguments: no scheduler, no MPI, no torch is asked.

The script is the host part of a run: it opens an attempt, starts the ranks, hands USR2 on to them (save and stop) and
watches the clock, has the scheduler start the run again where that is due, and writes the exit code last. Every word
that comes from a configuration is quoted for the shell.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.run_folder import RunFolder

ENVIRONMENT_OF_A_RANK = {
    "PYTHONUNBUFFERED": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

SEGMENTS = "/dev/shm/torus224-mpi"  # noqa: S108 - mkdir fails where anybody has taken the name
"""Open MPI's shared memory of a run lies in a folder of this name with the user's and the script's number behind it."""


CONTROL = frozenset(map(chr, [*range(1, 32), 127]))
"""Characters that a line cannot show, the end of a line among them."""


class Expansion(str):
    """A word for the shell to expand, safe as it is: `"$attempt/hosts"`."""


@dataclass(frozen=True)
class Batch:
    """What a script needs under a scheduler and not on this machine."""

    directives: Sequence[str]
    """Lines for the scheduler, whole, as `#SBATCH --nodes=2`."""
    job_id: str
    """Shell: sets job_id."""
    hosts: str
    """Shell: prints the job's hosts, one a line."""
    start_again: str
    """Shell: has the job started again; may set status."""
    ends_the_job: bool
    """Whether start_again ends the job at once, so that the exit code is written before it."""
    nodes: int
    slots: int
    """Ranks on each node."""
    wall_time_s: int
    lead_s: int
    """Seconds before the end of the wall time at which ranks are asked to save."""
    starts: int
    """New starts that a run may have."""
    chained: bool
    """Whether the new starts are dependent jobs, submitted ahead."""
    modules: Sequence[str] = ()
    require: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Small programs to write into the attempt's folder, by name: shell text that is not expanded."""
    term_saves: bool = False
    """Whether ranks can save on TERM, as under srun."""


def quote(words: Sequence[str | Path]) -> str:
    """A command line of which bash makes exactly these words; always one line, whatever they hold.

    A line of a word could be a directive to a scheduler, or end a here-document. No word can hold a NUL.
    """
    return " ".join(word if isinstance(word, Expansion) else _quoted(str(word)) for word in words)


def _quoted(word: str) -> str:
    if not any(character in CONTROL for character in word):
        return shlex.quote(word)
    escapes = {"\\": "\\\\", "'": "\\'"} | {character: f"\\x{ord(character):02x}" for character in CONTROL}
    return "$'" + "".join(escapes.get(character, character) for character in word) + "'"


def wrapped(words: Sequence[str | Path], columns: int = 100) -> str:
    """`quote` on several lines, where the words are many."""
    lines = [""]
    for word in words:
        shown = quote([word])
        if lines[-1] and len(lines[-1]) + len(shown) >= columns:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{shown}"
    return " \\\n    ".join(lines)


def render(
    *,
    folder: RunFolder,
    repository: Path,
    launch: Sequence[str],
    threads: int,
    title: str,
    environment: Mapping[str, str] | None = None,
    start_timeout_s: int = 600,
    end_timeout_s: int = 60,
    batch: Batch | None = None,
) -> str:
    """The script of a run.

    launch: the command that starts all ranks, words. threads: CPU threads a rank. environment: more variables of the
    ranks. start_timeout_s: within which ranks must be ready. end_timeout_s: within which the launcher must have ended
    once a rank has failed. batch: what a scheduler asks for; None: the script runs on this machine.
    """
    exports = {**ENVIRONMENT_OF_A_RANK, "OMP_NUM_THREADS": str(threads), **(environment or {})}
    blocks = [
        _head(folder, repository, title, batch),
        GUARD if batch is not None and batch.chained else "",
        _opening(batch),
        BEGINNING if batch is None else OUTPUT,
        *([] if batch is None else _preparation(batch)),
        "" if batch is None else OF_MODULES,
        _exports(exports, repository),
        SEGMENTS_OF_A_MACHINE.format(segments=quote([SEGMENTS])) if batch is None else "",
        _launch(launch, start_timeout_s, end_timeout_s, batch),
        WAITING,
    ]
    return "\n".join(block.strip("\n") + "\n" for block in blocks if block)


def _head(folder: RunFolder, repository: Path, title: str, batch: Batch | None) -> str:
    directives = "".join(f"{line}\n" for line in batch.directives) if batch else ""
    lock_s = 2 if batch is None else 30
    term = "as does TERM" if batch and batch.term_saves else "TERM ends them at once"
    return f"""
#!/bin/bash
{directives}# {_comment(title)}
# The same script starts the run again: ranks go on from its newest checkpoint.
# USR2 makes the ranks save and stop (exit code 85); {term}.
# shellcheck disable=SC2329,SC1090  # functions that only traps call; files that only the cluster has
set -uo pipefail
umask 077
run_folder={quote([folder.path])}
attempts=$run_folder/attempts
cd {quote([repository])} || exit 1
export HOME="${{HOME:-$run_folder}}"  # Open MPI does not start without one

# One script a run folder: every process of the run inherits this lock. Some file systems of clusters have no locks
# (any code but 1); then only the scheduler keeps two from running.
exec 8< "$attempts" || exit 1
flock --timeout {lock_s} 8  # the job before may be about to end, and whoever asks for a run holds it for an instant
[ "$?" != 1 ] || {{ echo "$run_folder is running already" >> "$run_folder/log/job.log"; exit 1; }}
"""


GUARD = """
# A job that was submitted ahead has something to do only where the one before it saved, or could not say how it ended.
if [ "${1:-}" = follow ]; then
    last=-1
    while [ -e "$attempts/$((last + 1))" ]; do last=$((last + 1)); done
    [ ! -e "$run_folder/cancelled" ] || exit 0
    case $(cat "$attempts/$last/exit" 2> /dev/null) in
        "" | 85 | 143) ;;  # 143: ended by TERM, before it had saved
        *) exit 0 ;;
    esac
fi
"""


def _opening(batch: Batch | None) -> str:
    """Opens the attempt, and says what is to happen on every way out."""
    job_id = "job_id=$$" if batch is None else batch.job_id.strip("\n")
    again = "" if batch is None else AGAIN.format(starts=batch.starts)
    decision = "" if batch is None else "    is_to_start_again || :\n" if batch.chained else DECISION
    again_lines = "" if batch is None or batch.chained else _starting_again(batch.start_again)
    first, last = ("", again_lines) if batch and batch.ends_the_job else (again_lines, "")
    term = "ask_to_save" if batch and batch.term_saves else "told_to_end=yes; tell -TERM"
    return f"""
# Attempt N, opened before anything else; its exit code is written last, whatever ends this script.
attempt=0
while [ -e "$attempts/$attempt" ]; do attempt=$((attempt + 1)); done
attempt=$attempts/$attempt
mkdir "$attempt" || exit 1
head -c 65536 /dev/zero > "$attempt/reserve"  # for last words and the exit code, where the disk is full by then
code=1
launcher=
waiting=1
told_to_end=no
timers=()
segments=
fail() {{ mkdir -p "$attempt/errors"; echo "$1" > "$attempt/errors/host"; echo "error: $1" >&2; exit 1; }}
uptime_s() {{ read -r up _ < /proc/uptime; up=${{up%.*}}; }}  # sets up; bash's own SECONDS jumps with the clock
after() {{  # SECONDS COMMAND...: in the background; it ends with this script, also one that was killed
    trap - EXIT  # a timer that is ended as it starts would run our trap, and write another exit code behind ours
    (
        uptime_s
        end=$((up + $1))
        shift
        while [ "$up" -lt "$end" ]; do sleep 1; kill -0 $$ || exit; uptime_s; done
        "$@"
    ) 8<&- 9<&- > /dev/null 2>&1 &
    timers+=("$!")
    [ "$BASHPID" != $$ ] || trap finish EXIT
}}
{again.strip(chr(10))}
finish() {{
    trap '' USR2 TERM INT HUP
    [ "${{#timers[@]}}" = 0 ] || kill "${{timers[@]}}" 2> /dev/null
    [ -z "$segments" ] || rm -rf "$segments"
    status=$code
    rm -f "$attempt/reserve"
{decision}{first}    echo "$code" > "$attempt/exit"
{last}    exit "$status"
}}
trap finish EXIT

# Until the ranks say that they are ready, USR2 would end them: a request to stop is only noted then, and they look for
# it once they have said so.
tell() {{ waiting=1; [ -z "$launcher" ] || kill "$1" "$launcher" 2> /dev/null; }}
ask_to_save() {{ waiting=1; : > "$attempt/stop"; [ ! -e "$attempt/ready" ] || tell -USR2; }}
trap ask_to_save USR2
trap '{term}' TERM INT HUP
{job_id}
echo "$job_id" > "$attempt/job_id"
TORUS224_STARTED=$(date +%s.%N)
export TORUS224_STARTED
"""


DECISION = """\
    start_again=no
    ! is_to_start_again || start_again=yes
"""

AGAIN = """
not_again() {{ echo "$1" > "$attempt/not_again"; echo "$1" >&2; return 1; }}
is_to_start_again() {{
    [ "$code" = 85 ] || {{ [ -e "$attempt/out_of_time" ] && [ "$told_to_end" = yes ]; }} || return 1
    [ ! -e "$run_folder/cancelled" ] || return 1
    local starts
    starts=$(cat "$run_folder/starts" 2> /dev/null || echo 0)
    [ "$starts" -lt {starts} ] || {{ not_again "its {starts} new starts (site.requeue.max) are used up"; return 1; }}
    echo "$((starts + 1))" > "$run_folder/starts"
}}
"""

BEGINNING = """
echo "job $job_id, attempt ${attempt##*/}, $(date '+%F %T %z'), on $(uname -n)" >&2  # where job.log is
"""

OUTPUT = """
exec >> "$run_folder/log/job.log" 2>&1  # by itself: some schedulers show output only when the job has ended
echo "job $job_id, attempt ${attempt##*/}, $(date '+%F %T %z'), on $(uname -n)"
"""

MODULES = """
if ! command -v module > /dev/null; then
    set +u  # the scripts of environment modules read variables that are not set
    for init in /etc/profile.d/modules.sh /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh; do
        [ ! -r "$init" ] || . "$init"
    done
    set -u
fi
load() {
    command -v module > /dev/null || fail "this node has no module command, and the site loads the module $1"
    set +u
    module load "$1" || fail "module load $1 failed; \\`module avail\\` lists what there is"
    set -u
}
"""

OF_MODULES = """
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"  # the launcher hands it on by name, and complains where it is not set
"""

SEGMENTS_OF_A_MACHINE = """
# Open MPI's shared memory gets a folder of its own, so that nothing of it outlives the run. The lock is inherited by
# every process of the run and so is free only when all are dead: what a killed run left is removed by the next one.
segments={segments}-$UID
for old in "$segments"-*/lock; do
    [ -O "${{old%/lock}}" ] && [ -f "$old" ] && flock --nonblock "$old" rm -rf "${{old%/lock}}"  # nobody else's
done
segments=$segments-$$
mkdir -m 700 "$segments" || exit 1
exec 9> "$segments/lock"
flock --nonblock 9
export OMPI_MCA_btl_sm_backing_directory="$segments"
export PRTE_MCA_prte_tmpdir_base="$segments"  # mpirun's own files, which one that is killed leaves
"""

WAITING = """
# A trap interrupts wait: wait again until it returns the launcher's own code (127: it was taken already).
while [ "$waiting" = 1 ]; do
    waiting=0
    wait "$launcher"
    status=$?
    [ "$status" = 127 ] || code=$status
done
if [ "$code" != 0 ] && [ "$code" != 85 ] && [ "$told_to_end" = no ] && [ ! -e "$attempt/ready" ] &&
    [ ! -e "$attempt/errors" ] && [ "$logged" = "$(log_bytes)" ]; then
    echo "the launcher ended with code $status before the ranks were ready, without a word" >&2
fi
# A launcher whose daemons were killed may call it a success: only the ranks know whether they are done.
if [ "$code" = 0 ] && [ ! -e "$attempt/done" ]; then
    code=1
    echo "the launcher ended with code 0 before the ranks were done, as it does when a node goes down" >&2
fi
[ ! -e "$attempt/stuck" ] || code=1
[ "$told_to_end" = no ] || [ "$code" = 0 ] || [ "$code" = 85 ] || code=143
exit "$code"
"""


def _preparation(batch: Batch) -> list[str]:
    """Modules, required variables, hosts and small programs of a batch job."""
    blocks = []
    if batch.modules:
        blocks.append(load_modules(batch.modules))
    if batch.require:
        names = " ".join(batch.require)
        blocks.append(
            f'for name in {names}; do\n    [ -n "${{!name:-}}" ] || fail "$name has no value in this job, and the site '
            'needs it; is this the right SITE?"\ndone\n'
        )
    blocks.append(HOSTS.format(hosts=batch.hosts.strip(), nodes=batch.nodes, slots=batch.slots))
    for name, text in batch.files.items():
        blocks.append(
            f"cat > \"$attempt/{name}\" <<'END_OF_{name.upper()}'\n{text.strip(chr(10))}\nEND_OF_{name.upper()}\n"
            f'chmod 700 "$attempt/{name}"\n'
        )
    return blocks


def load_modules(modules: Sequence[str]) -> str:
    """Shell: loads environment modules; calls `fail LINE` where one cannot be."""
    return MODULES + "".join(f"load {quote([module])}\n" for module in modules)


HOSTS = """
hosts() {{ {hosts}; }}
hosts | sed 's/$/ slots={slots}/' > "$attempt/hosts" || fail "the job's hosts cannot be found out"
granted=$(wc -l < "$attempt/hosts")
[ "$granted" = {nodes} ] || fail "the scheduler granted $granted nodes and the run needs {nodes}"
"""


def _exports(exports: Mapping[str, str], repository: Path) -> str:
    lines = [f"export {name}={quote([value])}" for name, value in exports.items()]
    return "\n".join([*lines, f"export PYTHONPATH={quote([repository])}"]) + "\n"


def _launch(launch: Sequence[str], start_timeout_s: int, end_timeout_s: int, batch: Batch | None) -> str:
    """Starts the ranks, the clock of the wall time, and the watches over their start and their end."""
    clock = ""
    if batch is not None:
        clock = f"""
# The scheduler's own warnings come early, late or never: this clock is ours.
out_of_time() {{ : > "$attempt/out_of_time"; kill -USR2 $$; }}
after {max(1, batch.wall_time_s - batch.lead_s)} out_of_time
"""
    redirected = ' 2>> "$run_folder/log/job.log"' if batch is None else ""
    return f"""{clock.lstrip(chr(10))}
log_bytes() {{ stat --format=%s "$run_folder/log/job.log" 2> /dev/null; }}
logged=$(log_bytes)
{wrapped(launch)}{redirected} &
launcher=$!
end_launcher() {{
    kill -TERM "$launcher"
    after 10 kill -KILL "$launcher"  # one that swallows it
    wait
}}
hung() {{
    [ ! -e "$attempt/ready" ] || return
    echo {start_timeout_s} > "$attempt/hung"  # the ranks' notes in starting/ tell where they stand
    end_launcher
}}
after {start_timeout_s} hung

# mpirun waits for ever for the daemon of a node that is cut off; the ranks have told by then who does not answer.
stuck() {{ echo {end_timeout_s} > "$attempt/stuck"; end_launcher; }}
failed() {{
    until [ -e "$attempt/errors" ]; do sleep 2; kill -0 $$ || exit; done
    after {end_timeout_s} stuck
    wait
}}
after 0 failed
"""


def _comment(text: str) -> str:
    return " ".join(text.split())


def _starting_again(lines: str) -> str:
    inner = "\n".join(f"        {line}" if line else "" for line in lines.strip("\n").splitlines())
    return f'    if [ "$start_again" = yes ]; then\n{inner}\n    fi\n'
