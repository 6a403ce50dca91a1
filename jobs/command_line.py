"""What the commands for runs share: one `error: …` line for a mistake, and a quiet end where nobody reads on.

Torch-free.
"""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED

EXIT_INTERRUPTED = 128 + signal.SIGINT
"""As a shell says of what Ctrl-C ended."""


class Parser(argparse.ArgumentParser):
    """An argparse parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {self.prog} --help tells more")


def run(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a command; returns its exit code. Ctrl-C, and a reader that has gone, as head, end it quietly."""
    os.umask(0o077)  # a run folder is its owner's
    take_interrupts()
    closed = sys.stdout is None  # as by >&-; what the command does is done all the same
    if closed:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - to the end of the process
    try:
        code = main(arguments)
        sys.stdout.flush()
        return code or (fail("the output is closed") if closed else code)
    except UserError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return EXIT_DONE
    except OSError as error:
        why = error.strerror or str(error)
        if error.filename:
            return fail(f"{error.filename}: {why}")
        _drop_output()
        return fail(f"nothing more can be written: {why}")


def take_interrupts() -> None:
    """From here on Ctrl-C is an exception; jobs/__init__.py let it end what was only imported yet."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def fail(line: str) -> int:
    """Say in one line what was wrong."""
    with contextlib.suppress(OSError):
        print(f"error: {line}", file=sys.stderr, flush=True)
    return EXIT_FAILED


def _drop_output() -> None:
    """Python's own last flush would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
