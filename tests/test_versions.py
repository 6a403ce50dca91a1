"""Versions stand in requirements.lock and versions.env, and nowhere else."""

import re
import subprocess
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest

from jobs.image.versions import left_in, read_lock, read_versions
from pipeline.errors import UserError

THAT_BUILD = ("Dockerfile", "Singularity.def", "Makefile", ".ci/run", ".hadolint.yaml", ".dockerignore")

PIN = re.compile(r"(?m)^[\"' ]*[A-Za-z][A-Za-z0-9_.-]*(\[\w+\])?==[0-9][\w.]*")
NAMED = re.compile(
    r"(?i)\bpython ?\d\.\d|\b(pip|debian|ubuntu|cuda|cu|openmpi|libopenmpi|torch|docker|apptainer)[-_:@ ]?v?\d[\w.]*"
)

OF_VERSIONS = ("requirements.lock", "tests/jobs/test_study.py")
"""The lock, and a text of made-up versions that a test reads."""

NOT_OF_THE_LOCK = {"pip", "setuptools", "wheel"}
"""What venv puts into an environment by itself."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def lock(repository: Path) -> dict[str, str]:
    return read_lock(repository / "requirements.lock")


@pytest.mark.parametrize("name", THAT_BUILD)
def test_no_file_that_builds_names_a_version(repository: Path, name: str) -> None:
    text = (repository / name).read_text()
    values = read_versions(repository / "versions.env").values()
    assert not [value for value in values if value in text]
    assert not NAMED.search(text), NAMED.search(text)
    assert not PIN.search(text)


def test_no_package_is_pinned_outside_the_lock(repository: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=repository, capture_output=True, text=True, check=True).stdout
    files = [repository / name for name in listed.splitlines() if name not in OF_VERSIONS]
    texts = {path: path.read_text(errors="ignore") for path in files if path.is_file()}
    assert texts
    assert not {str(path): PIN.findall(text) for path, text in texts.items() if PIN.search(text)}


def test_what_reads_python_files_takes_them_for_the_python_of_versions_env(repository: Path) -> None:
    version = read_versions(repository / "versions.env")["PYTHON_VERSION"]
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == f">={version}"
    assert project["tool"]["mypy"]["python_version"] == version
    assert project["tool"]["ruff"]["target-version"] == f"py{version.replace('.', '')}"


def test_make_and_the_image_install_from_the_one_lock(repository: Path) -> None:
    assert "--requirement requirements.lock" in (repository / "Makefile").read_text()
    assert "COPY --chmod=0644 requirements.lock " in (repository / "Dockerfile").read_text()


def test_what_is_installed_here_has_the_locks_versions(lock: dict[str, str]) -> None:
    locked = {canonical(name): pin for name, pin in lock.items()}
    found = {canonical(one.metadata["Name"]): one.version for one in distributions()}
    assert {name: found[name] for name in found.keys() - NOT_OF_THE_LOCK} == {
        name: locked.get(name, "not in the lock") for name in found.keys() - NOT_OF_THE_LOCK
    }


def test_a_line_that_leaves_a_choice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for line in ("torch>=2", "torch", "torch==2.*", "torch==2.1; python_version>'3'", "torch==2 --hash=x"):
        path.write_text(f"# a comment\nnumpy==1.0\n\n{line}\n")
        with pytest.raises(UserError, match="a line is NAME==VERSION"):
            read_lock(path)


def test_an_image_has_of_the_lock_what_is_in_only_and_not_in_without() -> None:
    lock = {"torch": "2", "torchvision": "1", "mypy": "3"}
    assert left_in(lock, only="torch|mypy", without="mypy|ruff") == {"torch": "2"}
