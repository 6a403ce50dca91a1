"""Show a run without starting it: `python -m jobs.render exp=exp5 [OVERRIDE …]`.

Prints its header, its job script and its resolved configuration; makes no folder. Torch-free.
"""

import sys
from collections.abc import Sequence

from omegaconf import OmegaConf
from rich.console import Console

from jobs import compose, local
from pipeline.config import make_plan
from pipeline.errors import UserError
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
    print("\n# job.sh\n" + local.script(config, plan, RunFolder(config.run.dir), compose.REPOSITORY))
    print("# config.yaml\n" + OmegaConf.to_yaml(OmegaConf.structured(config)), end="")
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
