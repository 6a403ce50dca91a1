"""What the stand-ins for PBS's commands answer: the records in pbs_records/, with a test's own job put into them."""

import getpass
import json
import re
import sys
from html import escape
from pathlib import Path

from tests.jobs.fake_pbs_jobs import SERVER, Tree, chunk_of, index_of, number_of, state_holder

RECORDS = Path(__file__).resolve().parent / "pbs_records"

STATES = {
    "queued": "mixed 10.pbsn0",
    "running": "mixed 9.pbsn0",
    "finished": "mixed 4.pbsn0",
    "failed": "mixed 5.pbsn0",
    "over walltime": "walltime 9.pbsn0",
    "deleted": "deleted 10.pbsn0",
    "deleted while running": "deleted-while-running 3.pbsn0",
    "never runs": "mixed 7.pbsn0",
    "held": "held 0.pbsn0",
    "waiting": "waiting 2.pbsn0",
    "dropped": "dropped 2.pbsn0",
}
"""The states of a job, each with the record of one (file and id). waiting: for another job's end (-W depend); dropped:
as that end was another one. never runs: queued, and the comment says why."""

STATES_OF_ARRAY = {
    "queued": "array-queued 11[].pbsn0",
    "running": "array-running 11[].pbsn0",
    "finished": "mixed 6[].pbsn0",
    "failed": "array-failed 11[].pbsn0",
    "deleted": "array-deleted 12[].pbsn0",
}
STATES_OF_MEMBER = {
    "queued": "member-queued 11[2].pbsn0",
    "running": "member-running 11[2].pbsn0",
    "finished": "member-finished 11[0].pbsn0",
    "failed": "member-failed 11[2].pbsn0",
    "deleted": "member-deleted 12[1].pbsn0",
}

ENDED = ("finished", "failed", "over walltime", "deleted", "deleted while running", "dropped")

RESOURCES = ("host", "mem", "mpiprocs", "ncpus", "ngpus", "ompthreads")
LONGEST_NAME = 230
NUMBER = r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?"
"""A job's name that looks like one is printed as one."""


def record_of(job: Tree, name: str) -> Tree:
    """What PBS tells of a job in its state: the record, with what the job was submitted with put in."""
    options, resources, one = job["options"], job["resources"], state_holder(job, name)
    file, recorded_id = states_of(name)[one["state"]].split()
    record: Tree = json.loads((RECORDS / f"qstat-{file}.json").read_text())["Jobs"][recorded_id]
    title = options.get("-N", "STDIN")
    index = f".{index_of(name) or '^array_index^'}" if job["members"] else ""
    paths = {
        letter: Path(job["cwd"]) / options.get(f"-{letter}", f"{title}.{letter}{number_of(name)}{index}")
        for letter in ("o", "e")
    }
    own = {
        "Job_Name": json.loads(title) if re.fullmatch(NUMBER, title) else title,
        "Job_Owner": f"{getpass.getuser()}@{SERVER}",
        "queue": job["queue"],
        "Output_Path": f"{SERVER}:{paths['o']}",
        "Error_Path": f"{SERVER}:{paths['e']}",
        "Join_Path": options.get("-j", "n"),
        "Rerunable": "False" if options.get("-r") == "n" else "True",
        "project": options.get("-P", "_pbs_project_default"),
        "Submit_arguments": " ".join(job["words"]),
        "Resource_List": {**record["Resource_List"], **resources},
        "Variable_List": {**record["Variable_List"], "PBS_O_WORKDIR": job["cwd"]},
        "array_id": job["id"],
        "array_index": int(index_of(name) or 0),
        "array_indices_submitted": options.get("-J"),
        "Exit_status": record.get("Exit_status") if one["exit_status"] is None else one["exit_status"],
    }
    arguments = "".join(f"<jsdl-hpcpa:Argument>{escape(word)}</jsdl-hpcpa:Argument>" for word in job["command"][1:])
    of_a_command = {  # some of the records are of jobs that were scripts
        "executable": f"<jsdl-hpcpa:Executable>{escape(job['command'][0])}</jsdl-hpcpa:Executable>",
        "argument_list": arguments,
    }
    return record | {key: value for key, value in own.items() if key in record} | of_a_command


def refused_option(options: dict[str, str]) -> str:
    """The recorded command line that was refused for the fault that these options have too; empty where none has."""
    span = re.fullmatch(r"(\d+)-(\d+)(:[1-9]\d*)?", options.get("-J", "0-1"))
    if not span or int(span[1]) >= int(span[2]):
        return "qsub -J 1-1 ok.sh"
    if len(options.get("-N", "")) > LONGEST_NAME:
        return f"qsub -N {'x' * (LONGEST_NAME + 1)} -- /bin/true"
    if not re.fullmatch(r"[!-.0-~]+", options.get("-N", "STDIN")):
        return "qsub -N 'a b' -- /bin/true"
    return ""


def refused_resource(resources: dict[str, str]) -> str:
    """The same for the resources of -l."""
    if not re.fullmatch(r"(\d+:){0,2}\d+(\.\d+)?", resources.get("walltime", "1")):
        return "qsub -l walltime=abc ok.sh"
    if "select" in resources and "ncpus" in resources:
        return "qsub -l select=1 -l ncpus=2 -- /bin/true"
    if not set(chunk_of(resources)) <= {*RESOURCES, "nosuch"} or "nosuch" in chunk_of(resources):
        return "qsub -l select=1:nosuch=1 -- /bin/true"
    return ""


def refuse(recorded: str, *, found: str = "", put: str = "") -> int:
    """Say what PBS said to this recorded command line; returns the exit code.

    put: what to say in place of found, which is the recorded job's id unless given.
    """
    text = "".join((RECORDS / name).read_text() for name in ("qsub.txt", "errors.txt", "refusals.txt"))
    answer = dict(part.split("\n", 1) for part in text.split("$ ")[1:])[recorded]
    words, code = answer.rstrip().rsplit("\nrc ", 1)
    if put:
        words = re.sub(re.escape(found) if found else r"\d+\.pbsn0", lambda _: put, words)
    print(words, file=sys.stderr)
    return int(code)


def states_of(name: str) -> dict[str, str]:
    return STATES_OF_MEMBER if index_of(name) else STATES_OF_ARRAY if "[" in name else STATES
