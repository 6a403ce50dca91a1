#!/bin/bash
#$ -N t224-exp5
#$ -S /bin/bash
#$ -l rt_F=272
#$ -l h_rt=0:20:00
#$ -j y
#$ -o /home/user/torus224/runs/example/log/scheduler.log
#$ -r y
#$ -m n
# Torus224, exp5, 272 nodes x 4 at abci
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
flock --timeout 30 8  # the job before may be about to end, and whoever asks for a run holds it for an instant
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
not_again() { echo "$1" > "$attempt/not_again"; echo "$1" >&2; return 1; }
is_to_start_again() {
    [ "$code" = 85 ] || { [ -e "$attempt/out_of_time" ] && [ "$told_to_end" = yes ]; } || return 1
    [ ! -e "$run_folder/cancelled" ] || return 1
    local starts
    starts=$(cat "$run_folder/starts" 2> /dev/null || echo 0)
    [ "$starts" -lt 3 ] || { not_again "its 3 new starts (site.requeue.max) are used up"; return 1; }
    echo "$((starts + 1))" > "$run_folder/starts"
}
finish() {
    trap '' USR2 TERM INT HUP
    [ "${#timers[@]}" = 0 ] || kill "${timers[@]}" 2> /dev/null
    [ -z "$segments" ] || rm -rf "$segments"
    status=$code
    rm -f "$attempt/reserve"
    start_again=no
    ! is_to_start_again || start_again=yes
    echo "$code" > "$attempt/exit"
    if [ "$start_again" = yes ]; then
        status=99
    fi
    exit "$status"
}
trap finish EXIT

# Until the ranks say that they are ready, USR2 would end them: a request to stop is only noted then, and they look for
# it once they have said so.
tell() { waiting=1; [ -z "$launcher" ] || kill "$1" "$launcher" 2> /dev/null; }
ask_to_save() { waiting=1; : > "$attempt/stop"; [ ! -e "$attempt/ready" ] || tell -USR2; }
trap ask_to_save USR2
trap 'told_to_end=yes; tell -TERM' TERM INT HUP
job_id=${JOB_ID:-}
[ "${SGE_TASK_ID:-undefined}" = undefined ] || job_id=$job_id.$SGE_TASK_ID
echo "$job_id" > "$attempt/job_id"
TORUS224_STARTED=$(date +%s.%N)
export TORUS224_STARTED

exec >> "$run_folder/log/job.log" 2>&1  # by itself: some schedulers show output only when the job has ended
echo "job $job_id, attempt ${attempt##*/}, $(date '+%F %T %z'), on $(uname -n)"

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
    module load "$1" || fail "module load $1 failed; \`module avail\` lists what there is"
    set -u
}
load singularitypro
load openmpi

for name in JOB_ID SGE_JOB_HOSTLIST SGE_LOCALDIR; do
    [ -n "${!name:-}" ] || fail "$name has no value in this job, and the site needs it; is this the right SITE?"
done

hosts() { awk '!seen[$1]++ {print $1}' "${SGE_JOB_HOSTLIST:-${PE_HOSTFILE:-/dev/null}}"; }
hosts | sed 's/$/ slots=4/' > "$attempt/hosts" || fail "the job's hosts cannot be found out"
granted=$(wc -l < "$attempt/hosts")
[ "$granted" = 272 ] || fail "the scheduler granted $granted nodes and the run needs 272"

cat > "$attempt/launch-agent" <<'END_OF_LAUNCH-AGENT'
#!/bin/bash
# mpirun calls this as it would ssh: HOST COMMAND... Grid Engine's qrsh loses quotes, so the command goes in a file.
host=$1
shift
program=$(mktemp "${0%/*}/daemon-$host.XXXXXX") || exit 1
printf '%s\n' "$*" > "$program"
exec qrsh -inherit -nostdin "$host" /bin/bash "$program"
END_OF_LAUNCH-AGENT
chmod 700 "$attempt/launch-agent"

cat > "$attempt/rank" <<'END_OF_RANK'
#!/bin/bash
# A rank inside /images/torus224.sif.
unset OPAL_PREFIX PMIX_PREFIX PYTHONHOME LD_PRELOAD
for name in $(compgen -e); do
    case $name in
        OMPI_* | PMIX_* | PMI_* | PRTE_* | SLURM_* | PBS_* | TORUS224_* | NCCL_* | GLOO_* | CUDA_DEVICE_ORDER | MKL_NUM_THREADS | OMP_NUM_THREADS | OPENBLAS_NUM_THREADS | PYTHONNOUSERSITE | PYTHONPATH | PYTHONUNBUFFERED | SGE_LOCALDIR)
            export "APPTAINERENV_$name=${!name}" "SINGULARITYENV_$name=${!name}" ;;
    esac
done
local=()
for name in SGE_LOCALDIR TMPDIR; do
    [ ! -d "${!name:-}" ] || local+=(--bind "${!name}")
done
exec singularity exec --nv --no-home --bind /home/user/torus224 --bind /home/user/torus224/runs/example \
    --bind /dev/shm --bind /tmp --bind /data/imagenet "${local[@]}" /images/torus224.sif python3 -m \
    pipeline.train /home/user/torus224/runs/example
END_OF_RANK
chmod 700 "$attempt/rank"

export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"  # the launcher hands it on by name, and complains where it is not set

export PYTHONUNBUFFERED=1
export OPENBLAS_NUM_THREADS=1
export MKL_NUM_THREADS=1
export OMP_NUM_THREADS=1
export PYTHONNOUSERSITE=1
export CUDA_DEVICE_ORDER=PCI_BUS_ID
export TORUS224_WORLD_SIZE=1088
export NCCL_IB_HCA=mlx5_0,mlx5_1
export PRTE_MCA_plm_ssh_agent="$attempt/launch-agent"
export OMPI_MCA_plm_rsh_agent="$attempt/launch-agent"
export PYTHONPATH=/home/user/torus224

# The scheduler's own warnings come early, late or never: this clock is ours.
out_of_time() { : > "$attempt/out_of_time"; kill -USR2 $$; }
after 1080 out_of_time

log_bytes() { stat --format=%s "$run_folder/log/job.log" 2> /dev/null; }
logged=$(log_bytes)
mpirun -n 1088 --hostfile "$attempt/hosts" --map-by ppr:4:node --bind-to none --mca osc '^ucx' -x \
    HOME -x PATH -x LD_LIBRARY_PATH -x PYTHONUNBUFFERED -x OPENBLAS_NUM_THREADS -x MKL_NUM_THREADS -x \
    OMP_NUM_THREADS -x PYTHONPATH -x TORUS224_STARTED -x PYTHONNOUSERSITE -x CUDA_DEVICE_ORDER -x \
    TORUS224_WORLD_SIZE -x NCCL_IB_HCA -x PRTE_MCA_plm_ssh_agent -x OMPI_MCA_plm_rsh_agent -x \
    SGE_LOCALDIR "$attempt/rank" &
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
# submitted by: qsub -terse -g gaa50000 /home/user/torus224/runs/example/job.sh
