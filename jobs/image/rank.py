"""One rank of a look at launchers and images: `python -m jobs.image.rank RANKS` prints its place in the world.

RANKS is what was started. It ends as a training rank would: with the line of pipeline.world where the world is another.
Torch-free, so that the small image can run it.
"""

import os
import sys

from pipeline.config import Grid
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED
from pipeline.world import check_world, launcher_mpi, program_mpi


def main(arguments: list[str]) -> int:
    """Start MPI and look; returns the exit code."""
    from mpi4py import MPI  # starts MPI

    world, mpi = MPI.COMM_WORLD, program_mpi(MPI.Get_library_version())
    try:
        check_world(world.Get_size(), Grid(1, int(arguments[0])), os.environ, mpi=mpi)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    launcher = launcher_mpi(os.environ)
    print(f"rank {world.Get_rank()} of {world.Get_size()}, {mpi}, launched by {launcher};", flush=True)
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
