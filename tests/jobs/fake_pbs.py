"""Stand-ins for PBS's qsub, qstat, qdel and qsig that answer what a real OpenPBS answered (pbs_records/).

`install` puts the four commands into a folder's bin/ and returns the PATH that finds them first. They keep their state
in that folder's files, with no process behind them: a test reads what was called by `calls` and says what has become of
a job by `set_state`. Two servers that give trouble are to be had by `set_server`.

Where jobs run (`install(…, runs=True)`), qsub starts the job at once, on this machine, with a job's environment and
node file; its end, its wall time, qdel and qsig do to it what they do in PBS. `stop` ends what is left.

Not replayed: directives within a script (jobs are `qsub OPTIONS -- COMMAND`), and qstat's tables (only `-f -F json`).
"""

import contextlib
import fcntl
import getopt
import getpass
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).resolve().parent / "pbs_records"

RECORD_OF_STATE = {
    "queued": ("qstat-mixed.json", "10.pbsn0"),
    "running": ("qstat-mixed.json", "9.pbsn0"),
    "finished": ("qstat-mixed.json", "4.pbsn0"),
    "failed": ("qstat-mixed.json", "5.pbsn0"),
    "over walltime": ("qstat-walltime.json", "9.pbsn0"),
    "deleted": ("qstat-deleted.json", "10.pbsn0"),
    "never runs": ("qstat-mixed.json", "7.pbsn0"),
    "held": ("qstat-mixed.json", "10.pbsn0"),
}
"""The states of a job, each with the record that tells of one. A job of an array has one record, of its end."""

ARRAY = ("qstat-mixed.json", "6[].pbsn0")
HELD = {"job_state": "H", "Hold_Types": "u", "substate": 20, "comment": "Job held by user"}
"""What differs in a held job from a queued one."""

SERVER = "pbsn0"
COMMANDS = ("qsub", "qstat", "qdel", "qsig")
QSUB_OPTIONS = "a:A:c:C:e:fhIXj:J:k:l:m:M:N:o:p:P:q:r:R:S:u:W:v:Vz"
KILL_DELAY_S = 2.0
"""Between TERM and KILL; PBS waits 10 s."""


def install(folder: Path, *, runs: bool = False, queues: Sequence[str] = ("rt_HF",)) -> dict[str, str]:
    """Put the commands into folder/bin; returns the environment variables that a test has to set: PATH.

    runs: whether qsub really runs the job. queues: those that the server has; the first is taken where none is named.
    """
    commands = folder / "bin"
    commands.mkdir(parents=True)
    (folder / "jobs").mkdir()
    _write(folder / "server.json", {"runs": runs, "queues": list(queues), "answers": True, "delay_s": 0.0})
    for name in COMMANDS:
        words = [sys.executable, "-I", str(Path(__file__).resolve()), name, str(folder.resolve())]
        (commands / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (commands / name).chmod(0o755)
    return {"PATH": f"{commands.resolve()}{os.pathsep}{os.environ['PATH']}"}


def set_state(folder: Path, job_id: str, state: str, exit_status: int | None = None) -> None:
    """Say what has become of a job: one of RECORD_OF_STATE; exit_status replaces that of the record."""
    if state not in RECORD_OF_STATE:
        raise ValueError(f"no record of a job that is {state}; there are {', '.join(RECORD_OF_STATE)}")
    with _locked(folder):
        job = _read_job(folder, job_id)
        if job is None:
            raise ValueError(f"no job {job_id} was submitted")
        _write_job(folder, job | {"state": state, "exit_status": exit_status})


def set_server(folder: Path, *, answers: bool = True, delay_s: float = 0.0) -> None:
    """Let the server be down, or let it take delay_s seconds for every answer."""
    server = json.loads((folder / "server.json").read_text())
    _write(folder / "server.json", server | {"answers": answers, "delay_s": delay_s})


def calls(folder: Path, command: str) -> list[dict[str, Any]]:
    """Every call of a command so far: argv (list), cwd, environment (dict)."""
    path = folder / f"{command}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def stop(folder: Path) -> None:
    """End the jobs that still run."""
    for path in (folder / "jobs").glob("*.json"):
        job = json.loads(path.read_text())
        if job["state"] == "running":
            _signal(job, signal.SIGKILL)


def main(command: str, folder: Path, words: list[str]) -> int:
    """Be one of the commands; returns its exit code."""
    with _locked(folder), (folder / f"{command}.jsonl").open("a") as log:
        log.write(json.dumps({"argv": words, "cwd": str(Path.cwd()), "environment": dict(os.environ)}) + "\n")
    server = json.loads((folder / "server.json").read_text())
    time.sleep(server["delay_s"])
    if not server["answers"]:
        print(f"{command}: cannot connect to server {SERVER} (errno=15010)", file=sys.stderr)
        return 255
    return {"qsub": qsub, "qstat": qstat, "qdel": qdel, "qsig": qsig}[command](folder, words)


def qsub(folder: Path, words: list[str]) -> int:
    """Take a job in and print its id."""
    server = json.loads((folder / "server.json").read_text())
    try:
        pairs, command = getopt.getopt(words, QSUB_OPTIONS)
    except getopt.GetoptError:
        return _refuse("qsub -J 1-1 ok.sh")
    options = dict(pairs)
    resources = dict(item.partition("=")[::2] for option, value in pairs if option == "-l" for item in value.split(","))
    refused = _refusal(options, resources, [] if "--" in words else command, server["queues"])
    if refused:
        return _refuse(refused)
    with _locked(folder):
        number = len(list((folder / "jobs").iterdir()))
        job = {
            "id": f"{number}{'[]' if '-J' in options else ''}.{SERVER}",
            "state": "held" if "-h" in options else "queued",
            "exit_status": None,
            "options": options,
            "resources": resources,
            "command": command,
            "arguments": shlex.join(words),
            "queue": options.get("-q", server["queues"][0]),
            "cwd": str(Path.cwd()),
            "session": None,
        }
        _write_job(folder, job)
    if "-z" not in options:
        print(job["id"], flush=True)
    if server["runs"] and job["state"] == "queued" and "-J" not in options:
        _detach(folder, job)
    return 0


def qstat(folder: Path, words: list[str]) -> int:
    """Print the records of jobs, of all of them where none is named."""
    try:
        pairs, wanted = getopt.getopt(words, "xtfF:")
    except getopt.GetoptError as error:
        sys.exit(f"fake qstat: {error}")
    options = dict(pairs)
    everything = {path.stem: json.loads(path.read_text()) for path in (folder / "jobs").glob("*.json")}
    found, code = {}, 0
    for name in wanted or list(everything):
        job = everything.get(_number(name))
        if job is None:
            code = _refuse("qstat 99999", name=_full(name))
        elif job["state"] in FINISHED and "-x" not in options:
            code = _refuse("qstat 0.pbsn0 (finished, no -x)", name=job["id"]) if wanted else code
        else:
            found[job["id"]] = _record(job)
    if found and (options.get("-F") != "json" or "-f" not in options):
        sys.exit("fake qstat: only `-f -F json` is replayed")
    if found:
        head = {"timestamp": int(time.time()), "pbs_version": "23.06.06", "pbs_server": SERVER}
        print(json.dumps(head | {"Jobs": found}, indent=1))
    return code


FINISHED = ("finished", "failed", "over walltime", "deleted")


def qdel(folder: Path, words: list[str]) -> int:
    """Delete jobs: a queued one at once, a running one by TERM and then KILL."""
    code = 0
    for name in words:
        with _locked(folder):
            job = _read_job(folder, name)
            if job is not None and job["state"] not in FINISHED:
                _write_job(folder, job | {"state": "deleted"})
        if job is None:
            code = _refuse("qdel 99999", name=_full(name))
        elif job["session"] and job["state"] not in FINISHED:
            _signal(job, signal.SIGTERM)
    return code


def qsig(folder: Path, words: list[str]) -> int:
    """Send a signal (-s NAME or number) to every process of jobs."""
    pairs, names = getopt.getopt(words, "s:")
    name = dict(pairs).get("-s", "TERM").removeprefix("SIG")
    number = signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name}"]
    code = 0
    for one in names:
        job = _read_job(folder, one)
        if job is None:
            code = _refuse("qdel 99999", name=_full(one), command="qsig")
        elif job["session"] and job["state"] == "running":
            _signal(job, number)
    return code


def _refusal(options: dict[str, str], resources: dict[str, str], script: list[str], queues: list[str]) -> str:
    """The recorded command line that was refused for what these have too; empty where nothing is wrong."""
    span = re.fullmatch(r"(\d+)-(\d+)(:[1-9]\d*)?", options.get("-J", "0-1"))
    if not span or int(span[1]) >= int(span[2]):
        return "qsub -J 1-1 ok.sh"
    if script and not Path(script[0]).is_file():
        return "qsub nosuchfile.sh"
    if options.get("-q", queues[0]) not in queues:
        return "qsub -q nosuch ok.sh"
    if not re.fullmatch(r"(\d+:){0,2}\d+(\.\d+)?", resources.get("walltime", "1")):
        return "qsub -l walltime=abc ok.sh"
    return ""


def _refuse(recorded: str, *, name: str = "", command: str = "") -> int:
    """Say what PBS said to this recorded command line, with another job's name in it; returns the exit code."""
    text = (RECORDS / "qsub.txt").read_text() + (RECORDS / "errors.txt").read_text()
    answers = {part.partition("\n")[0]: part.partition("\n")[2] for part in text.split("$ ")}
    answer = answers[recorded]
    said, code = answer.rstrip().rsplit("\nrc ", 1)
    if name:
        said = re.sub(r"\d+\.pbsn0", name, said)
    if command:
        said = re.sub(r"^\w+:", f"{command}:", said)
    print(said, file=sys.stderr)
    return int(code)


def _record(job: dict[str, Any]) -> dict[str, Any]:
    """What PBS tells of a job in its state: the record, with what the job was submitted with put in."""
    options, resources = job["options"], job["resources"]
    file, name = ARRAY if "-J" in options else RECORD_OF_STATE[job["state"]]
    record: dict[str, Any] = json.loads((RECORDS / file).read_text())["Jobs"][name]
    record |= HELD if job["state"] == "held" else {}
    title = options.get("-N", "STDIN" if "--" in job["arguments"].split() else Path(job["command"][0]).name)
    record |= {
        "Job_Name": title,
        "Job_Owner": f"{getpass.getuser()}@{SERVER}",
        "queue": job["queue"],
        "Join_Path": options.get("-j", "n"),
        "Rerunable": "False" if options.get("-r") == "n" else "True",
        "project": options.get("-P", "_pbs_project_default"),
        "Submit_arguments": job["arguments"],
    }
    index = ".^array_index^" if "-J" in options else ""
    for key, option, letter in (("Output_Path", "-o", "o"), ("Error_Path", "-e", "e")):
        path = options.get(option, f"{title}.{letter}{_number(job['id'])}{index}")
        record[key] = f"{SERVER}:{Path(job['cwd']) / path}"
    if "hashname" in record:
        record["hashname"] = job["id"]
    if "-J" in options:
        record["array_indices_submitted"] = options["-J"]
    record["Resource_List"] = {**record["Resource_List"], **resources}
    record["schedselect"] = resources.get("select", record["schedselect"])
    record["Variable_List"]["PBS_O_WORKDIR"] = job["cwd"]
    if job["exit_status"] is not None and "Exit_status" in record:
        record["Exit_status"] = job["exit_status"]
    return record


def _detach(folder: Path, job: dict[str, Any]) -> None:
    """Run a job in a process that nobody waits for, as a PBS job's submitter does not."""
    words = [sys.executable, "-I", str(Path(__file__).resolve()), "job", str(folder), job["id"]]
    nothing = subprocess.DEVNULL
    subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)


def run_job(folder: Path, job_id: str) -> None:
    """A running job, from its start to its end."""
    job = _read_job(folder, job_id)
    assert job is not None
    output = folder / "jobs" / f"{_number(job_id)}.output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            job["command"],
            cwd=Path.home(),
            env=_environment(folder, job),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with _locked(folder):
        now = _read_job(folder, job_id)
        assert now is not None
        job = now | {"session": process.pid, "state": "running" if now["state"] == "queued" else now["state"]}
        _write_job(folder, job)
    if job["state"] == "deleted":  # before it was known whom to end
        _signal(job, signal.SIGTERM)
    over = _await(folder, job, process)
    _signal(job, signal.SIGKILL)  # PBS leaves nothing of a job behind
    code = process.returncode
    shutil.copyfile(output, Path(job["cwd"]) / job["options"].get("-o", f"{_number(job_id)}.output"))
    with _locked(folder):
        now = _read_job(folder, job_id)
        assert now is not None
        ended = "over walltime" if over else "finished" if code == 0 else "failed"
        state = now["state"] if now["state"] == "deleted" else ended
        status = None if over or not code else code if code > 0 else 256 - code
        _write_job(folder, now | {"state": state, "exit_status": status})


def _await(folder: Path, job: dict[str, Any], process: "subprocess.Popen[bytes]") -> bool:
    """Wait for a job's end; returns whether its wall time was over before that."""
    began, over, kill_at = time.monotonic(), False, None
    limit = job["resources"].get("walltime")
    limit_s = sum(float(part) * 60**place for place, part in enumerate(reversed(limit.split(":")))) if limit else None
    while process.poll() is None:
        now = time.monotonic()
        if limit_s is not None and now - began > limit_s and not over:
            over = True
            _signal(job, signal.SIGTERM)
        current = _read_job(folder, job["id"])
        if kill_at is None and (over or (current and current["state"] == "deleted")):
            kill_at = now + KILL_DELAY_S
        if kill_at is not None and now > kill_at:
            _signal(job, signal.SIGKILL)
        time.sleep(0.05)
    return over


def _environment(folder: Path, job: dict[str, Any]) -> dict[str, str]:
    """A job's environment: what PBS sets, and of the submitter's only what -v and -V hand on."""
    number, options = _number(job["id"]), job["options"]
    chunks, _, details = job["resources"].get("select", "1").partition(":")
    ranks = int(dict(item.partition("=")[::2] for item in details.split(":")).get("mpiprocs", "1"))
    nodes = folder / "jobs" / f"{number}.nodes"
    nodes.write_text(f"{socket.gethostname()}\n" * int(chunks) * ranks)
    home, user = str(Path.home()), getpass.getuser()
    recorded = dict(line.partition("=")[::2] for line in (RECORDS / "env.txt").read_text().splitlines())
    submitter = calls(folder, "qsub")[int(number)]["environment"] if "-V" in options else {}
    named = [word for word in options.get("-v", "").split(",") if word]
    given = {word.partition("=")[0]: word.partition("=")[2] if "=" in word else os.environ[word] for word in named}
    return {
        **submitter,
        **recorded,
        "PBS_JOBID": job["id"],
        "PBS_JOBNAME": options.get("-N", "STDIN"),
        "PBS_NODEFILE": str(nodes),
        "PBS_JOBDIR": home,
        "PBS_O_HOME": home,
        "PBS_O_PATH": os.environ["PATH"],
        "PBS_O_WORKDIR": job["cwd"],
        "PBS_QUEUE": job["queue"],
        "PBS_O_QUEUE": job["queue"],
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/bash",
        "PATH": f"{folder}/bin:/usr/bin:/bin",
        **given,
    }


def _signal(job: dict[str, Any], number: int) -> None:
    """Send a signal to every process of a job: to its session, whatever process groups are in it."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "stat").read_text().rpartition(")")[2].split()[3] == str(
                job["session"]
            ):
                os.kill(int(entry.name), number)


def _number(name: str) -> str:
    """The number of a job, of an array's job that of the array."""
    return re.split(r"[.\[]", name)[0]


def _full(name: str) -> str:
    return name if "." in name else f"{name}.{SERVER}"


def _read_job(folder: Path, name: str) -> dict[str, Any] | None:
    path = folder / "jobs" / f"{_number(name)}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _write_job(folder: Path, job: dict[str, Any]) -> None:
    _write(folder / "jobs" / f"{_number(job['id'])}.json", job)


def _write(path: Path, tree: dict[str, Any]) -> None:
    """Write a file that another process finds whole."""
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(tree))
    temporary.replace(path)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    if sys.argv[1] == "job":
        run_job(Path(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
