"""Prepare images as shards: `python -m pipeline.data.prepare --data FOLDER --from FOLDER [prepare.KEY=VALUE …]`.

Under mpirun with several ranks, the first deals shards to the others; else processes of this machine write them.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from pipeline.data.prepare.kept import DataFolder
from pipeline.data.prepare.options import Options, of_words
from pipeline.data.prepare.processes import processes, ranks, started_by_mpi
from pipeline.data.prepare.program import check_apart, prepare
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = _Parser(prog="make prepare DATA=… FROM=…", description=__doc__, allow_abbrev=False)
    parser.add_argument("--data", required=True, help="folder of the shards")
    parser.add_argument("--from", dest="source", required=True, help="folder of the images, or tar files")
    parser.add_argument("--processes", help="that decode at a time; one a core by default")
    parser.add_argument("words", nargs="*", metavar="prepare.KEY=VALUE", help="see docs/data.md")
    try:
        given = parser.parse_args(arguments)
        _run(given, of_words(given.words))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    except OSError as error:
        if not error.filename:
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("stopped; what is complete is kept, and the same command goes on from there", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_DONE


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; options are words as prepare.KEY=VALUE, beside --data, --from and --processes")


def _run(given: argparse.Namespace, options: Options) -> None:
    paths, folder, console = sources(given.source), DataFolder(Path(given.data)), Console()
    if started_by_mpi(os.environ):
        with ranks() as dealt:
            if dealt is not None:
                check_apart(folder.path, paths)
                with folder.held():
                    prepare(folder, paths, options, *dealt, console)
    else:
        check_apart(folder.path, paths)
        with folder.held(), processes(_count(given.processes)) as (pool, count):
            prepare(folder, paths, options, pool, count, console)


def sources(text: str) -> list[Path]:
    """The paths that FROM names: one, or several as a shell has them."""
    if Path(text).exists():
        return [Path(text)]
    try:
        return [Path(word) for word in shlex.split(text)] or [Path(text)]
    except ValueError:
        return [Path(text)]


def _count(text: str | None) -> int | None:
    if text is None or (text.isdecimal() and int(text) > 0):
        return int(text) if text else None
    raise UserError(f"PROCESSES={text}: a number of processes, as 8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
