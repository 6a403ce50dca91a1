"""The small image for real: built by the Dockerfile on a base of debootstrap's, made a SIF, its ranks started by mpirun.

Skipped with the reason where this machine has no program for it. The base is made once and kept in build/.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.image import check
from jobs.image.base import DEBOOTSTRAP
from jobs.image.build import BUILD, SMALL, build
from jobs.image.check import RANKS, Image
from jobs.image.contents import faults, read
from jobs.image.programs import find_builder, find_runner, is_root
from jobs.image.sif import make_sif
from jobs.image.versions import left_in, read_lock
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder

OPEN_MPI_4 = """
ARG BASE
FROM ${BASE}
USER root
RUN apt-get update && apt-get install --yes --no-install-recommends libopenmpi3
ENV MPI4PY_LIBMPI=libmpi.so.40
"""
"""The small image with the Open MPI of Debian's in the place of the lock's."""


def lacking() -> str:
    """Why the image cannot be built here; empty where it can."""
    if not is_root():
        return "debootstrap needs root"
    if shutil.which(DEBOOTSTRAP) is None:
        return "no debootstrap on PATH; apt-get install debootstrap"
    try:
        find_builder()
        find_runner()
    except UserError as error:
        return str(error)
    return ""
