"""Whether MPI's world is the grid's, and the one that the launcher promised. Torch-free.

Where the MPIs of launcher and program do not meet, or an image with an empty environment hides the launcher's words,
most launchers fall back to worlds of one without a word: each of 2176 ranks would train by itself.
"""

from collections.abc import Callable, Mapping

from pipeline.config import Grid
from pipeline.errors import UserError

PROMISES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "TORUS224_WORLD_SIZE")
"""Where launchers say how many processes they started; the last is the job script's."""

EXACT = ("OMPI_COMM_WORLD_SIZE", "TORUS224_WORLD_SIZE")
"""Those that say it of this very launch; SLURM_NTASKS may be what the whole job was granted."""


def check_world(
    size: int,
    grid: Grid,
    environment: Mapping[str, str],
    *,
    mpi: str = "",
    legal_grids: Callable[[], str] | None = None,
) -> None:
    """Raise UserError unless the world has the grid's size and the one the launcher promised.

    mpi: the program's MPI with its version, for the line. legal_grids: lists the grids for `size` workers, for the
    line; None: all there are, by their rows.
    """
    for name in PROMISES:
        promised = int(environment[name]) if environment.get(name, "").isdigit() else 0
        if promised > size and (size == 1 or name in EXACT):
            raise UserError(
                f"MPI sees a world of {'one' if size == 1 else size}, but the launcher started {promised} processes "
                f"({name}): {_sides(environment, mpi)}"
            )
    if size == grid.workers:
        return
    sides = [(rows, size // rows) for rows in range(1, size + 1) if size % rows == 0]
    possible = legal_grids() if legal_grids else ", ".join(f"{rows}x{columns}" for rows, columns in sides)
    hidden = f"; where more than one was started, {_sides(environment, mpi)}" if size == 1 else ""
    raise UserError(
        f"{size} processes were started and the grid {grid} needs {grid.workers}; start {grid.workers}, "
        f"or for {size} take one of the grids {possible}{hidden}"
    )


def program_mpi(words: str) -> str:
    """An MPI and its version, from the library's own words on itself."""
    return words.partition(",")[0].strip()


def launcher_mpi(environment: Mapping[str, str]) -> str:
    """The MPI of whoever started this rank, by the variables it left; empty where there are none.

    Open MPI 5 tells its version; version 4 tells that of PMIx alone, and is known by the names of its variables.
    """
    pmix = f"PMIx {environment['PMIX_VERSION']}" if environment.get("PMIX_VERSION") else ""
    if environment.get("OMPI_VERSION"):
        return f"Open MPI {environment['OMPI_VERSION']}"
    if any(name.startswith("OMPI_MCA_orte_") for name in environment):
        return f"Open MPI 4{f' ({pmix})' if pmix else ''}"
    return pmix


def _sides(environment: Mapping[str, str], mpi: str) -> str:
    """Both sides' versions, and what would be right."""
    return (
        f"the launcher's MPI ({launcher_mpi(environment) or 'it told no version'}) and the program's "
        f"({mpi or 'not known'}) do not meet: take an Open MPI in the program that is as new as the launcher's, or "
        "newer, and let OMPI_*, PMIX_* and PRTE_* reach it (--cleanenv keeps them from an image)"
    )
