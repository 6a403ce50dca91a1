"""The health check that stands in the image: what it says where the image is not what was asked for."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from jobs.image import health

CODE = Path(health.__file__)


def test_another_version_and_an_absent_package_are_named() -> None:
    installed = {"torch": "2.0", "numpy": "1.0"}
    found = health.differences({"torch": "2.1", "numpy": "1.0", "rich": "3"}, lambda name: installed.get(name, ""))
    assert list(found) == [
        "torch is 2.0; requirements.txt asks for 2.1", "rich is absent; requirements.txt asks for 3",
    ]  # fmt: skip


def test_pins_are_read_and_comments_are_none() -> None:
    assert health.requirements("# a==1\nnumpy==2.4\n\nPyYAML==6.0\n") == {"numpy": "2.4", "PyYAML": "6.0"}


def test_it_stands_alone_and_ends_with_1_where_something_is_absent(tmp_path: Path) -> None:
    (tmp_path / "health.py").write_text(CODE.read_text())
    (tmp_path / "requirements.txt").write_text("submitit==0.0.1\n")
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "health.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"error: submitit is {version('submitit')}; requirements.txt asks for 0.0.1" in done.stderr
    assert "torch: left out of this image" in done.stdout
    assert f"Open MPI v{version('openmpi')}" in done.stdout
