"""Runs a command that ends with its parent: `python -m jobs.tied COMMAND…`.

mpirun ends all ranks when it ends, wherever they are; a job script that is killed could not tell it. So mpirun gets a
TERM when the script is gone, however that went.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> None:
    """Become `command`, which the kernel sends TERM when the process that started it is dead."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == parent:  # else it died before the kernel was asked
        os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
