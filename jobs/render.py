"""Show a run without starting it: `python -m jobs.render exp=exp5 [OVERRIDE …]`.

Prints its header, its job script and its resolved configuration; makes no folder. Torch-free.
"""

import os
import sys
from collections.abc import Sequence

from omegaconf import OmegaConf
from rich.console import Console

from jobs import compose, local
from pipeline.config import Config, Plan, make_plan
from pipeline.errors import UserError
from pipeline.estimate.algorithms import legal_grids
from pipeline.estimate.placement import as_network, listed, node_by_node
from pipeline.report.console import print_header
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED, RunFolder


def main(words: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    try:
        config = compose.compose(words)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    plan = make_plan(config)
    print_header(Console(highlight=False, width=None if sys.stdout.isatty() else 100), config, plan)
    print(f"\ngrids of {plan.workers:,} workers, best first by the model of the network: {grids(config, plan)}")
    print("\n# job.sh\n" + local.script(config, plan, RunFolder(config.run.dir), compose.REPOSITORY))
    print("# config.yaml\n" + OmegaConf.to_yaml(OmegaConf.structured(config)), end="")
    return EXIT_DONE


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
