#!/bin/bash
# Torus224, exp5, on this machine
# The same script starts the run again: ranks go on from its newest checkpoint.
# USR2 makes the ranks save and stop (exit code 85); TERM ends them at once.
# shellcheck disable=SC2329,SC1090  # functions that only traps call; files that only the cluster has
set -uo pipefail
umask 077
run_folder=/home/user/torus224/runs/example
attempts=$run_folder/attempts
cd /home/user/torus224 || exit 1
export HOME="${HOME:-$run_folder}"  # Open MPI does not start without one

# One script a run folder: every process of the run inherits this lock. Some file systems of clusters have no locks
# (any code but 1); then only the scheduler keeps two from running.
exec 8< "$attempts" || exit 1
flock --timeout 2 8  # the job before may be about to end, and whoever asks for a run holds it for an instant
[ "$?" != 1 ] || { echo "$run_folder is running already" >> "$run_folder/log/job.log"; exit 1; }

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
fail() { mkdir -p "$attempt/errors"; echo "$1" > "$attempt/errors/host"; echo "error: $1" >&2; exit 1; }
uptime_s() { read -r up _ < /proc/uptime; up=${up%.*}; }  # sets up; bash's own SECONDS jumps with the clock
after() {  # SECONDS COMMAND...: in the background; it ends with this script, also one that was killed
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
}

finish() {
    trap '' USR2 TERM INT HUP
    [ "${#timers[@]}" = 0 ] || kill "${timers[@]}" 2> /dev/null
    [ -z "$segments" ] || rm -rf "$segments"
    status=$code
    rm -f "$attempt/reserve"
    echo "$code" > "$attempt/exit"
    exit "$status"
}
trap finish EXIT

# Until the ranks say that they are ready, USR2 would end them: a request to stop is only noted then, and they look for
# it once they have said so.
tell() { waiting=1; [ -z "$launcher" ] || kill "$1" "$launcher" 2> /dev/null; }
ask_to_save() { waiting=1; : > "$attempt/stop"; [ ! -e "$attempt/ready" ] || tell -USR2; }
trap ask_to_save USR2
trap 'told_to_end=yes; tell -TERM' TERM INT HUP
job_id=$$
echo "$job_id" > "$attempt/job_id"
TORUS224_STARTED=$(date +%s.%N)
export TORUS224_STARTED

echo "job $job_id, attempt ${attempt##*/}, $(date '+%F %T %z'), on $(uname -n)" >&2  # where job.log is

export PYTHONUNBUFFERED=1
export OPENBLAS_NUM_THREADS=1
export MKL_NUM_THREADS=1
export OMP_NUM_THREADS=1
export OMPI_MCA_btl='^tcp'
export PYTHONPATH=/home/user/torus224

# Open MPI's shared memory gets a folder of its own, so that nothing of it outlives the run. The lock is inherited by
# every process of the run and so is free only when all are dead: what a killed run left is removed by the next one.
segments=/dev/shm/torus224-mpi-$UID
for old in "$segments"-*/lock; do
    [ -O "${old%/lock}" ] && [ -f "$old" ] && flock --nonblock "$old" rm -rf "${old%/lock}"  # nobody else's
done
segments=$segments-$$
mkdir -m 700 "$segments" || exit 1
exec 9> "$segments/lock"
flock --nonblock 9
export OMPI_MCA_btl_sm_backing_directory="$segments"
export PRTE_MCA_prte_tmpdir_base="$segments"  # mpirun's own files, which one that is killed leaves

log_bytes() { stat --format=%s "$run_folder/log/job.log" 2> /dev/null; }
logged=$(log_bytes)
/home/user/torus224/.venv/bin/python -m jobs.tied /home/user/torus224/.venv/bin/mpirun -n 4 \
    --oversubscribe --bind-to none --output :raw --mca osc '^ucx' /home/user/torus224/.venv/bin/python \
    -m pipeline.train /home/user/torus224/runs/example 2>> "$run_folder/log/job.log" &
launcher=$!
end_launcher() {
    kill -TERM "$launcher"
    after 10 kill -KILL "$launcher"  # one that swallows it
    wait
}
hung() {
    [ ! -e "$attempt/ready" ] || return
    echo 600 > "$attempt/hung"  # the ranks' notes in starting/ tell where they stand
    end_launcher
}
after 600 hung

# mpirun waits for ever for the daemon of a node that is cut off; the ranks have told by then who does not answer.
stuck() { echo 60 > "$attempt/stuck"; end_launcher; }
failed() {
    until [ -e "$attempt/errors" ]; do sleep 2; kill -0 $$ || exit; done
    after 60 stuck
    wait
}
after 0 failed

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
