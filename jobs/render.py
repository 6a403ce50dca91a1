"""Show a run without starting it: `python -m jobs.render exp=exp5 [OVERRIDE …]`.

Prints its header, its job script, the command that submits it and its resolved configuration; makes no folder. What
only the user knows may be missing: it is shown by a stand-in, and told. Torch-free; needs no scheduler.
"""

import os
import sys
from collections.abc import Sequence

from omegaconf import OmegaConf
from rich.console import Console

from jobs import compose, local
from jobs.allocation import beyond_limits
from jobs.job import Job, make_job
from jobs.prepare import check_secrets
from pipeline.config import Config, Plan, make_plan
from pipeline.errors import UserError
from pipeline.estimate.algorithms import legal_grids
from pipeline.estimate.placement import as_network, listed, node_by_node
from pipeline.report.console import print_header
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED, RunFolder

STAND_INS = {"site.account": "YOUR_GROUP", "data.path": "/path/to/your/shards", "container.image": "/path/to/your.sif"}
"""What is shown for what only the user knows."""


def main(words: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    try:
        config = compose.compose(words, stand_ins=STAND_INS)
        folder = RunFolder(config.run.dir)
        check_secrets(config, words)
        job = None if config.site.scheduler == "local" else make_job(config, folder, compose.REPOSITORY)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    plan = make_plan(config)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    print_header(console, config, plan)
    print(f"\ngrids of {plan.workers:,} workers, best first by the model of the network: {grids(config, plan)}")
    if job is None:
        print("\n# job.sh\n" + local.script(config, plan, folder, compose.REPOSITORY))
    else:
        print_job(job)
    print("# config.yaml\n" + OmegaConf.to_yaml(OmegaConf.structured(config)), end="")
    sys.stdout.flush()
    for line in warnings(config, job):
        print(f"warning: {line}", file=sys.stderr)
    return EXIT_DONE


def print_job(job: Job) -> None:
    """The script of a batch job and the command that submits it."""
    from jobs.executor import script  # here: what runs on this machine needs nothing of submitit
    from jobs.scheduler import find
    from jobs.script import quote

    scheduler = find(job.config.site.scheduler)
    print("\n# job.sh\n" + script(job, scheduler))
    print("# submitted by\n" + quote(scheduler.submit_command(job, job.folder.script)) + "\n")


def warnings(config: Config, job: Job | None) -> list[str]:
    """What submit would refuse, a line each."""
    values = {
        "site.account": config.site.account,
        "data.path": config.data.path,
        "container.image": config.container.image,
    }
    found = [
        f"{key} has no value and is shown as {STAND_INS[key]}; give {compose.MISSING_BY_MAKE[key]}… or set it in "
        "conf/user.yaml"
        for key, value in values.items()
        if value == STAND_INS[key]
    ]
    refusal = "" if job is None else beyond_limits(config, job.plan, job.allocation)
    return [*found, *([refusal] if refusal else [])]


def grids(config: Config, plan: Plan) -> str:
    """The legal grids with what the torus takes for a bucket on each, the best first."""
    node_of_rank = node_by_node(plan.workers, config.site.workers_per_node)
    bucket_bytes = config.allreduce.bucket_mb * 2**20 * (1.0 if config.allreduce.wire == "fp32" else 0.5)
    return listed(legal_grids(plan.workers, node_of_rank, as_network(config.site.network), bucket_bytes))


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_DONE
    sys.exit(code)
