"""Prints the versions of what is in an image and imports it: `python /opt/torus224/health.py [--ranks N]`.

It is copied into the image and stands alone. requirements.txt beside it is what was asked for: exit code 1 where
another version is installed, where something cannot be imported, or where N ranks started by the image's own mpirun are
not one world of N.
"""

import argparse
import importlib
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")

IMPORTS = {
    "torch": "torch",
    "torchvision": "torchvision",
    "nvidia-dali-cuda130": "nvidia.dali",
    "mpi4py": "mpi4py.MPI",
    "numpy": "numpy",
    "hydra-core": "hydra",
    "submitit": "submitit",
    "rich": "rich",
    "matplotlib": "matplotlib",
    "tensorboard": "torch.utils.tensorboard",
    "mlperf-logging": "mlperf_logging.mllog",
    "mlxtend": "mlxtend.data",
}
"""What a run imports, by the distribution that has it."""

COUNT = "from mpi4py import MPI; print('world', MPI.COMM_WORLD.Get_size(), flush=True)"

RANKS_S = 60
"""Where MPIs do not meet, a start may hang."""


def main(arguments: list[str]) -> int:
    """Look at all; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=0, help="start so many by the image's mpirun, too")
    ranks = parser.parse_args(arguments).ranks
    asked = requirements(REQUIREMENTS.read_text())
    print(f"Python {platform.python_version()}, {len(asked)} packages")
    faults = list(differences(asked, installed_version))
    faults += import_all(asked)
    print(mpi())
    if ranks:
        faults += worlds(ranks)
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if faults else 0


def requirements(text: str) -> dict[str, str]:
    """Versions by distribution, of a file with exact pins."""
    lines = [line.strip() for line in text.splitlines()]
    return {name: pin for name, equal, pin in (line.partition("==") for line in lines) if equal and name[0] != "#"}


def installed_version(name: str) -> str:
    """A distribution's version; empty where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def differences(asked: Mapping[str, str], installed: Callable[[str], str]) -> Iterable[str]:
    """What is installed otherwise than it was asked for."""
    for name, pin in asked.items():
        if (found := installed(name)) != pin:
            yield f"{name} is {found or 'absent'}; requirements.txt asks for {pin}"


def import_all(asked: Mapping[str, str]) -> list[str]:
    """Import what a run imports, as far as this image is to have it, and print its versions; what went wrong."""
    faults = []
    for name, module in IMPORTS.items():
        if name not in asked:
            print(f"{name}: left out of this image")
            continue
        try:
            if name == "mpi4py":
                importlib.import_module(name).rc.initialize = False  # a look starts no MPI
            importlib.import_module(module)
            print(f"{name} {asked[name]}")
        except Exception as error:
            faults.append(f"{module} cannot be imported: {type(error).__name__}: {error}")
    return faults


def mpi() -> str:
    """The MPI that the image's Python uses, in its own words."""
    try:
        from mpi4py import MPI
    except Exception as error:
        return f"no MPI: {error}"
    return MPI.Get_library_version().partition(",")[0].strip()


def worlds(ranks: int) -> list[str]:
    """Start ranks by the image's own mpirun; what went wrong."""
    beside = Path(sys.executable).parent
    command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "osc", "^ucx"]
    root = [f"{of}_ALLOW_RUN_AS_ROOT{again}" for of in ("OMPI", "PRTE") for again in ("", "_CONFIRM")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "PRTE_"))}
    environment = kept | dict.fromkeys(root, "1") | {"PATH": f"{beside}:{os.environ.get('PATH', os.defpath)}"}
    try:
        done = subprocess.run(
            [*command, sys.executable, "-c", COUNT],
            env=environment, capture_output=True, text=True, timeout=RANKS_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return [f"mpirun in the image: {error}"]
    found = sorted(line for line in done.stdout.splitlines() if line.startswith("world "))
    if found == [f"world {ranks}"] * ranks:
        print(f"mpirun in the image: {ranks} ranks are one world")
        return []
    return [f"mpirun in the image: {ranks} ranks say {found or 'nothing'}; {' '.join(done.stderr.split())[:300]}"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
