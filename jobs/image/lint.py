"""Look through Dockerfile and Singularity.def: `python -m jobs.image.lint` (make lint-image). Torch-free.

The Dockerfile is hadolint's, a wheel of requirements.lock. For the definition file there is no linter: it must have the
sections that users rely on, a default for every argument, and no step that installs, since these are the Dockerfile's.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.command_line import Parser, run
from jobs.compose import REPOSITORY
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED

NEEDED = ("arguments", "help", "environment", "runscript", "test")
OF_THE_DOCKERFILE = ("post", "setup", "files", "pre")
"""Sections that install."""

KNOWN = (*NEEDED, *OF_THE_DOCKERFILE, "labels", "startscript")


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    Parser(prog="make lint-image", description=__doc__).parse_args(arguments)
    faults = [*dockerfile_faults(REPOSITORY), *definition_faults((REPOSITORY / "Singularity.def").read_text())]
    for fault in faults:
        print(fault)
    if not faults:
        print("Dockerfile and Singularity.def: nothing found")
    return EXIT_FAILED if faults else EXIT_DONE


def dockerfile_faults(repository: Path) -> list[str]:
    """What hadolint finds. Raises UserError where it is not there."""
    beside = Path(sys.executable).with_name("hadolint")
    program = str(beside) if beside.exists() else shutil.which("hadolint")
    if program is None:
        raise UserError(
            "no hadolint beside Python and none on PATH; `make setup` installs the one of requirements.lock"
        )
    words = [program, "--config", str(repository / ".hadolint.yaml"), "--no-color", "Dockerfile"]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)
    return [line for line in f"{done.stdout}{done.stderr}".splitlines() if line] if done.returncode else []


def definition_faults(text: str) -> list[str]:
    """What is wrong with a definition file."""
    head, *parts = re.split(r"(?m)^%(?=\w)", text)
    sections = {part.split()[0]: part.partition("\n")[2] for part in parts}
    faults = [
        f"Singularity.def: no {key}: line" for key in ("Bootstrap", "From") if not re.search(f"(?m)^{key}: ", head)
    ]
    faults += [f"Singularity.def: no %{name}" for name in NEEDED if not sections.get(name, "").strip()]
    faults += [f"Singularity.def: %{name} is no section of one" for name in sections if name not in KNOWN]
    faults += [
        f"Singularity.def: %{name} installs, which is the Dockerfile's"
        for name in OF_THE_DOCKERFILE
        if name in sections
    ]
    given = set(re.findall(r"(?m)^\s*(\w+)=", sections.get("arguments", "")))
    used = set(re.findall(r"{{\s*(\w+)\s*}}", text))
    faults += [f"Singularity.def: {{{{ {name} }}}} has no default in %arguments" for name in sorted(used - given)]
    faults += [f"Singularity.def: the argument {name} is not used" for name in sorted(given - used)]
    return faults


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
