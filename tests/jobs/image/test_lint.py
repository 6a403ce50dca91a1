"""Dockerfile and Singularity.def as they are pass, and what would be wrong with them is found."""

import shutil
import sys
from pathlib import Path

import pytest

from jobs.image.lint import definition_faults, dockerfile_faults

HADOLINT = shutil.which("hadolint") or Path(sys.executable).with_name("hadolint").exists()


@pytest.fixture
def definition(repository: Path) -> str:
    return (repository / "Singularity.def").read_text()


def test_the_definition_file_passes(definition: str) -> None:
    assert definition_faults(definition) == []


@pytest.mark.parametrize(
    ("was", "becomes", "fault"),
    [
        ("%test", "%tests", "no %test"),
        ("%test", "%tests", "%tests is no section of one"),
        ("%environment", "%post", "%post installs, which is the Dockerfile's"),
        ("    FROM=", "    FORM=", "{{ FROM }} has no default in %arguments"),
        ("    FROM=", "    FORM=", "the argument FORM is not used"),
        ("Bootstrap:", "Bootstrp:", "no Bootstrap: line"),
    ],
)
def test_a_definition_file_that_is_wrong_is_told(definition: str, was: str, becomes: str, fault: str) -> None:
    assert any(fault in line for line in definition_faults(definition.replace(was, becomes)))


@pytest.mark.skipif(not HADOLINT, reason="no hadolint beside Python or on PATH; `make setup` installs it")
def test_hadolint_finds_nothing_in_the_dockerfile_and_something_in_a_bad_one(repository: Path, tmp_path: Path) -> None:
    assert dockerfile_faults(repository) == []
    shutil.copy(repository / ".hadolint.yaml", tmp_path)
    (tmp_path / "Dockerfile").write_text("FROM debian:bookworm\nRUN apt-get install python3\n")
    assert any("DL3014" in line for line in dockerfile_faults(tmp_path))  # apt-get without --yes
