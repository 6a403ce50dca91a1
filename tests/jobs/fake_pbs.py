"""Stand-ins for PBS's qsub, qstat, qdel and qsig that answer what a real OpenPBS answered (pbs_records/).

`install` puts the four commands into a folder's bin/ and returns the PATH that finds them first. They keep their state
in that folder's files, with no process behind them: a test reads what was called by `calls`, and says what has become
of a job by `set_state` and how the server is by `set_server`.

Where jobs run (`install(…, runs=True)`), qsub starts a job at once, on this machine, with a job's environment and node
file, and its end, its wall time, qdel and qsig do to it what they do in PBS. `stop` ends what is left.

Not replayed: jobs that are a script with directives (only `qsub OPTIONS -- COMMAND` is), dependencies (a job that has
one waits until `set_state` says otherwise), and qstat's tables (only `-f -F json` is).
"""

import getopt
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.jobs.fake_pbs_answers import ENDED, record_of, refuse, refused_option, refused_resource, states_of
from tests.jobs.fake_pbs_jobs import (
    DELETED,
    SERVER,
    Tree,
    full_id,
    locked,
    members_of,
    number_of,
    read,
    read_job,
    signal_job,
    start,
    state_holder,
    write,
    write_job,
)

REPOSITORY = Path(__file__).resolve().parent.parent.parent
COMMAND = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.jobs.fake_pbs import main
sys.exit(main(*sys.argv[2:]))
"""
"""The program behind each command; without the caller's Python paths, which stand in the environment that is noted."""

COMMANDS = ("qsub", "qstat", "qdel", "qsig")
QSUB_OPTIONS = "a:A:c:C:e:fhIXj:J:k:l:m:M:N:o:p:P:q:r:R:S:u:W:v:Vz"


def install(folder: Path, *, runs: bool = False, queues: Sequence[str] = ("rt_HF",)) -> dict[str, str]:
    """Put the commands into folder/bin; returns the environment variables that a test has to set: PATH.

    runs: whether qsub really runs the job. queues: those that the server has; the first is taken where none is named.
    """
    commands = folder.resolve() / "bin"
    commands.mkdir(parents=True)
    (folder / "jobs").mkdir()
    write(folder / "server.json", {"runs": runs, "queues": list(queues), "answers": True, "delay_s": 0.0})
    for name in COMMANDS:
        words = [sys.executable, "-I", "-c", COMMAND, str(REPOSITORY), name, str(folder.resolve())]
        (commands / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (commands / name).chmod(0o755)
    return {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}


def set_state(folder: Path, job_id: str, state: str, exit_status: int | None = None) -> None:
    """Say what has become of a job, of an array (`N[]`) or of one of its members (`N[2]`).

    exit_status: in place of the one in the state's record.
    """
    states = states_of(job_id)
    if state not in states:
        raise ValueError(f"there is no record of {job_id} being {state}; there are: {', '.join(states)}")
    with locked(folder):
        job = read_job(folder, job_id)
        if job is None:
            raise ValueError(f"no job {job_id} was submitted")
        state_holder(job, job_id).update(state=state, exit_status=exit_status)
        write_job(folder, job)


def set_server(folder: Path, *, answers: bool = True, delay_s: float = 0.0) -> None:
    """Let the server be down, or let it take delay_s seconds for every answer."""
    with locked(folder):
        write(folder / "server.json", read(folder / "server.json") | {"answers": answers, "delay_s": delay_s})


def calls(folder: Path, command: str) -> list[Tree]:
    """Every call of a command so far: argv (list), cwd, environment (dict)."""
    path = folder / f"{command}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def stop(folder: Path) -> None:
    """End the jobs that still run, and wait for them."""
    for path in (folder / "jobs").glob("*.json"):
        deadline = time.monotonic() + 20
        while (job := read(path))["running"]:
            assert time.monotonic() < deadline, f"{job['id']} does not end"
            signal_job(job, signal.SIGKILL)
            time.sleep(0.02)


def main(command: str, path: str, *arguments: str) -> int:
    """Be one of the commands; returns its exit code."""
    folder, words = Path(path), list(arguments)
    with locked(folder), (folder / f"{command}.jsonl").open("a") as log:
        log.write(json.dumps({"argv": words, "cwd": str(Path.cwd()), "environment": dict(os.environ)}) + "\n")
        server = read(folder / "server.json")
    time.sleep(server["delay_s"])
    if not server["answers"]:
        if command == "qstat" and "json" in words:
            _print_jobs({})
        asked = {"qsub": "qsub -- /bin/true", "qstat": "qstat 0", "qdel": "qdel 0", "qsig": "qsig -s USR2 0"}
        return refuse(f"{asked[command]} (no server)")
    return {"qsub": qsub, "qstat": qstat, "qdel": qdel, "qsig": qsig}[command](folder, words)


def qsub(folder: Path, words: list[str]) -> int:
    """Take a job in and print its id."""
    server = read(folder / "server.json")
    try:
        pairs, command = getopt.getopt(words, QSUB_OPTIONS)
    except getopt.GetoptError as error:
        return refuse("qsub -y", found="'y'", put=f"'{error.opt}'")
    options = dict(pairs)
    requests = [item.partition("=") for name, value in pairs if name == "-l" for item in value.split(",")]
    resources = {name: value for name, _, value in requests}
    refused = refused_option(options) or refused_resource(resources)
    if not refused and "--" not in words:
        refused = "qsub nosuchfile.sh"
    if not refused and options.get("-q", server["queues"][0]) not in server["queues"]:
        refused = "qsub -q nosuch ok.sh"
    if refused:
        return refuse(refused)
    if server["runs"] and "-J" in options:
        sys.exit("fake qsub: arrays do not run")
    with locked(folder):
        job = {
            "id": f"{len(list((folder / 'jobs').glob('*.json')))}{'[]' if '-J' in options else ''}.{SERVER}",
            "state": "held" if "-h" in options else "waiting" if "depend" in options.get("-W", "") else "queued",
            "exit_status": None,
            "members": {index: {"state": "queued", "exit_status": None} for index in members_of(options.get("-J"))},
            "options": options,
            "resources": resources,
            "command": command,
            "words": words,
            "queue": options.get("-q", server["queues"][0]),
            "cwd": str(Path.cwd()),
            "running": False,
            "session": None,
        }
        runs = server["runs"] and job["state"] == "queued"
        write_job(folder, job | {"state": "running", "running": True} if runs else job)
    if "-z" not in options:
        print(job["id"], flush=True)
    if runs:
        start(folder, job)
    return 0


def qstat(folder: Path, words: list[str]) -> int:
    """Print the records of jobs: of those named, or of all."""
    pairs, names = getopt.getopt(words, "xtfF:")
    options = dict(pairs)
    every = [read(path)["id"] for path in sorted((folder / "jobs").glob("*.json"), key=lambda path: int(path.stem))]
    found: dict[str, Tree] = {}
    code = 0
    for name in names or every:
        job = read_job(folder, name)
        if job is None:
            code = refuse("qstat 99999", put=full_id(name))
        elif state_holder(job, name)["state"] in ENDED and "-x" not in options:
            code = refuse("qstat 0.pbsn0 (finished, no -x)", put=full_id(name)) if names else code
        else:
            members = [full_id(f"{number_of(name)}[{index}]") for index in job["members"]] if "-t" in options else []
            found |= {one: record_of(job, one) for one in [full_id(name), *members]}
    if options.get("-F") == "json" and "-f" in options:
        _print_jobs(found)
    elif found:
        sys.exit("fake qstat: only `-f -F json` is replayed")
    return code


def qdel(folder: Path, words: list[str]) -> int:
    """Delete jobs: a queued one at once, a running one by TERM and then KILL."""
    code = 0
    for name in words:
        with locked(folder):
            job = read_job(folder, name)
            one = None if job is None else state_holder(job, name)
            if job is not None and one is not None and one["state"] not in ENDED:
                for each in [one, *one.get("members", {}).values()]:
                    if each["state"] not in ENDED:
                        each["state"] = "deleted" if "[" in name else DELETED.get(each["state"], "deleted")
                write_job(folder, job)
            elif job is not None:
                code = refuse("qdel 13.pbsn0", put=full_id(name))
        if job is None:
            code = refuse("qdel 99999", put=full_id(name))
        else:
            signal_job(job, signal.SIGTERM)
    return code


def qsig(folder: Path, words: list[str]) -> int:
    """Send a signal (-s NAME or number) to jobs: to every process of their first host that is in the job's session."""
    pairs, names = getopt.getopt(words, "s:")
    name = dict(pairs).get("-s", "TERM").removeprefix("SIG")
    number = signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name}"]
    code = 0
    for one in names:
        job = read_job(folder, one)
        if job is None:
            code = refuse("qsig -s USR2 99999", put=full_id(one))
        elif job["state"] in ENDED:
            code = refuse("qsig -s USR2 13.pbsn0")
        elif job["state"] != "running":
            code = refuse("qsig -s USR2 19.pbsn0", put=full_id(one))
        else:
            signal_job(job, number)
    return code


def _print_jobs(jobs: dict[str, Tree]) -> None:
    """Print qstat's JSON. A backslash is printed as it is, which makes it something else or no JSON at all."""
    head = {"timestamp": int(time.time()), "pbs_version": "23.06.06", "pbs_server": SERVER}
    text = json.dumps(head | ({"Jobs": jobs} if jobs else {}), indent=4, separators=(",", ":"))
    print(text.replace("\\\\", "\\"), end="", flush=True)
