"""Wrap the image into a SIF by Singularity.def: `python -m jobs.image.sif` (make sif). Torch-free.

What the SIF is made of is BOOTSTRAP:FROM, as Apptainer and SingularityCE name it: docker-archive:build/torus224.tar
(what `make image` leaves), oci-archive:FILE, docker-daemon:NAME:TAG, docker:NAME@sha256:….
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from jobs.command_line import Parser, run
from jobs.compose import REPOSITORY
from jobs.image.build import BUILD
from jobs.image.programs import find_runner, first_line_of
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE

BOOTSTRAPS = ("docker", "docker-daemon", "docker-archive", "oci-archive", "oci")
ARCHIVES = ("docker-archive", "oci-archive", "oci")
"""Those that name a file or a folder."""


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make sif", description=__doc__)
    parser.add_argument("--from", dest="source", default="", help="BOOTSTRAP:FROM; default: what make image left")
    parser.add_argument("--small", action="store_true", help="of the small image")
    parser.add_argument("--runner", default="", help="apptainer or singularity; default: the first on PATH")
    options, more = parser.parse_known_args(arguments)
    os.umask(0o022)
    name = "torus224-small" if options.small else "torus224"
    source = options.source or f"docker-archive:{BUILD / name}.tar"
    print(f"image: {make_sif(source, BUILD / f'{name}.sif', options.runner, more)}")
    return EXIT_DONE


def make_sif(source: str, target: Path, wanted: str = "", more: Sequence[str] = ()) -> Path:
    """Make a SIF and run its %test. more: words for the program.

    The test is run on what was made and not while it is made: there root would need every capability that there is.

    Raises UserError where it cannot be made.
    """
    began_s = time.monotonic()
    runner = find_runner(wanted)
    print(f"found {first_line_of([runner, '--version'])}", flush=True)
    target.parent.mkdir(exist_ok=True)
    words = command(runner, source, target, REPOSITORY / "Singularity.def", more)
    for step in (words, [runner, "test", str(target)]):
        code = subprocess.run(step, check=False).returncode
        if code:
            raise UserError(f"{runner} {step[1]} ended with code {code}; its own words are above")
    print(f"{target.name}: {target.stat().st_size / 1e9:.2f} GB, {time.monotonic() - began_s:.0f} s")
    return target


def command(runner: str, source: str, target: Path, definition: Path, more: Sequence[str] = ()) -> list[str]:
    """The command that makes a SIF. Raises UserError for a source that is none."""
    bootstrap, _, place = source.partition(":")
    if bootstrap not in BOOTSTRAPS or not place:
        raise UserError(f"FROM={source}: it is BOOTSTRAP:FROM with one of {', '.join(BOOTSTRAPS)}")
    if bootstrap in ARCHIVES and not Path(place.partition(":")[0]).exists():
        raise UserError(f"FROM={source}: no such archive; `make image` makes one")
    if bootstrap == "docker":
        place = place.removeprefix("//")
    given = [word for pair in (f"BOOTSTRAP={bootstrap}", f"FROM={place}") for word in ("--build-arg", pair)]
    return [runner, "build", "--force", "--notest", *given, *more, str(target), str(definition)]


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
