"""What the commands for runs share: one `error: …` line for a mistake, and a quiet end where nobody reads on.

Torch-free.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED


class Parser(argparse.ArgumentParser):
    """An argparse parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {self.prog} --help tells more")


def run(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a command; returns its exit code. Ctrl-C, and a reader that has gone, as head, end it quietly."""
    os.umask(0o077)  # a run folder is its owner's
    try:
        code = main(arguments)
        sys.stdout.flush()
        return code
    except UserError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        return EXIT_DONE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python's own last flush would complain
        return EXIT_DONE


def fail(line: str) -> int:
    """Say in one line what was wrong."""
    print(f"error: {line}", file=sys.stderr, flush=True)
    return EXIT_FAILED
