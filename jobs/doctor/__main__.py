"""Looks at all that a run needs before it is submitted: `python -m jobs.doctor exp=exp5 site=abci3 [OVERRIDE …]`.

A line a check, `ok|warn|FAIL|skip  what: found …; needed …; how to mend`, and a count. What only the user knows may be
missing, and is told. Exit code 1 where something FAILs. Changes nothing; needs no scheduler at site=local.
"""

import copy
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from jobs import compose
from jobs.command_line import run
from jobs.doctor import folder, launcher, program, scheduler, values
from jobs.doctor.finding import Finding, Subject
from jobs.job import make_job
from jobs.render import STAND_INS
from pipeline.config import make_plan
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED, RunFolder
from pipeline.wording import counted


def main(words: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    try:
        subject = find_subject(words)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    levels: Counter[str] = Counter()
    for finding in examine(subject):
        print(finding, flush=True)
        levels[finding.level] += 1
    print(f"{levels['ok']} ok, {counted(levels['warn'], 'warning')}, {levels['FAIL']} FAIL, {levels['skip']} skipped")
    return EXIT_FAILED if levels["FAIL"] else EXIT_DONE


def find_subject(words: Sequence[str]) -> Subject:
    """The run that the words describe. Raises UserError where there is no such run."""
    config = compose.compose(words, stand_ins=STAND_INS)
    given = {
        "site.account": config.site.account,
        "data.path": config.data.path,
        "container.image": config.container.image,
    }
    absent = frozenset(key for key, value in given.items() if value == STAND_INS[key])
    local = config.site.scheduler == "local"
    job = None if local else make_job(config, RunFolder(config.run.dir), compose.REPOSITORY)
    return Subject(config, make_plan(config), job, absent)


def examine(subject: Subject) -> Iterator[Finding]:
    """All checks, in the order in which a job would meet what they look at."""
    yield from values.values(subject)
    yield scheduler.commands(subject)
    server = scheduler.server(subject)
    yield server
    yield scheduler.limits(subject)
    yield scheduler.test(subject, server)
    modules = launcher.modules(subject)
    yield modules
    if modules.level == "FAIL":  # told once; what else there is on PATH is worth a look
        subject = without_modules(subject)
    yield launcher.launcher(subject)
    yield launcher.agent(subject)
    contained = [program.container(subject), program.image(subject)]
    yield from contained
    found, versions = program.inside(subject, contained)
    yield found
    yield program.together(subject, versions)
    yield values.data(subject)
    yield values.memory(subject)
    yield from folder.folder(subject)
    yield folder.space(subject)
    yield folder.cores(subject)


def without_modules(subject: Subject) -> Subject:
    """The same run at a site that loads none."""
    config = copy.deepcopy(subject.config)
    config.site.modules = []
    return replace(subject, config=config, job=subject.job and replace(subject.job, config=config))


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
