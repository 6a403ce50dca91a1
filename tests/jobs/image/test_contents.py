"""What must not be in an image is found in its archive, wherever a layer put it, and what a layer took away is not."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from jobs.image.contents import faults, read
from pipeline.errors import UserError

CLEAN = {"usr/bin/python3.11": "", "opt/torus224/bin/mpirun": "", "etc/debian_version": "12.11"}


def packed(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def archive(path: Path, layers: Sequence[Mapping[str, str]], *, env: Sequence[str] = (), user: str = "10001") -> Path:
    """An archive as docker saves one."""
    history: list[dict[str, object]] = [{"created_by": f"RUN step {number}"} for number in range(len(layers))]
    history.insert(1, {"created_by": "ARG X", "empty_layer": True})
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "c.json", "Layers": names}]
    files = {
        "manifest.json": json.dumps(manifest).encode(),
        "c.json": json.dumps({"config": {"Env": list(env), "User": user}, "history": history}).encode(),
        **{name: packed(layer) for name, layer in zip(names, layers, strict=True)},
    }
    with tarfile.open(path, "w") as whole:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            whole.addfile(member, io.BytesIO(content))
    return path


def test_a_clean_image_has_no_fault_and_its_layers_have_their_steps_and_sizes(tmp_path: Path) -> None:
    contents = read(archive(tmp_path / "i.tar", [CLEAN, {"opt/a": "12345"}]))
    assert faults(contents) == []
    assert [(layer.made_by, layer.size_bytes) for layer in contents.layers] == [("RUN step 0", 5), ("RUN step 1", 5)]
    assert contents.size_bytes == 10


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("usr/bin/gcc-12", "a compiler"), ("usr/bin/x86_64-linux-gnu-ld", "a compiler"), ("usr/bin/make", "a compiler"),
        ("opt/torus224/bin/pip", "a compiler"), ("usr/include/stdio.h", "headers"),
        ("var/lib/apt/lists/deb_main_Packages", "a package index"), ("opt/torch.whl", "a package index"),
        ("root/.cache/pip/http/a", "a cache"), ("tmp/pip/bin/x", "a temporary file"), ("var/log/dpkg.log", "a log"),
        ("etc/pip.conf", "settings of pip"), ("root/.netrc", "a secret"), ("home/torus224/.ssh/id_ed25519", "a secret"),
        ("run/secrets/certificates", "a temporary file"), ("etc/ssl/private/host.key", "a secret"),
        ("work/.git/config", "the repository"),
        ("home/torus224/conf/user.yaml", "the repository"), ("etc/resolv.conf", "etc/resolv.conf of the machine"),
    ],
)  # fmt: skip
def test_what_must_not_be_there_is_named(tmp_path: Path, path: str, what: str) -> None:
    (fault,) = faults(read(archive(tmp_path / "i.tar", [CLEAN, {path: "x"}])))
    assert fault.startswith(what)
    assert path in fault


def test_what_a_later_layer_takes_away_is_gone(tmp_path: Path) -> None:
    below = {"usr/bin/gcc": "", "tmp/pip/a": "", "tmp/pip/b": "", "etc/pip.conf": "index = https://me:word@place"}
    above = {"usr/bin/.wh.gcc": "", "tmp/.wh.pip": "", "etc/.wh.pip.conf": ""}
    assert faults(read(archive(tmp_path / "i.tar", [CLEAN, below, above]))) == []
    opaque = {"tmp/.wh..wh..opq": ""}
    assert [one[:6] for one in faults(read(archive(tmp_path / "j.tar", [CLEAN, below, opaque])))] == [
        "a comp", "settin", "a pass",
    ]  # fmt: skip


def test_registries_and_passwords_are_found_in_settings_environment_and_history(tmp_path: Path) -> None:
    layer = {"etc/apt/sources.list": "deb http://me:word@mirror.example/debian x main"}
    found = faults(read(archive(tmp_path / "i.tar", [layer], env=["A=/wheels/simple"])), ["/wheels"])
    assert found == ["a password in etc/apt/sources.list", "/wheels in the environment"]


def test_root_is_no_user_of_an_image(tmp_path: Path) -> None:
    assert faults(read(archive(tmp_path / "i.tar", [CLEAN], user=""))) == ["the user is root"]


def test_a_file_that_is_no_archive_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_text("no")
    with pytest.raises(UserError, match=r"x\.tar is no archive of an image"):
        read(tmp_path / "x.tar")
