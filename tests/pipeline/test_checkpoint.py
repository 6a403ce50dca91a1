"""Checkpoints: whole or absent, the newest kept, damage and strangers named."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from jobs.compose import compose
from pipeline import checkpoint
from pipeline.config import make_plan, save
from pipeline.config.identity import identity
from pipeline.data.epochs import Epochs
from pipeline.errors import UserError
from pipeline.evaluate import evaluate
from pipeline.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run")


def state(update: int, *words: str) -> checkpoint.State:
    plan = checkpoint.describe(Epochs(0, make_plan(compose(["exp=exp5", *words]))))
    return checkpoint.State(update, {"fc.bias": torch.arange(3.0)}, {}, {}, None, plan)


def test_what_is_saved_is_what_plain_torch_load_reads(folder: RunFolder) -> None:
    path = checkpoint.save(folder, state(7), keep=2)
    content = torch.load(path, weights_only=True)
    assert torch.equal(content["model"]["fc.bias"], torch.arange(3.0))
    assert content["update"] == 7
    assert "batch_norm" not in content


def test_only_the_newest_are_kept(folder: RunFolder) -> None:
    for update in (10, 20, 30, 40):
        checkpoint.save(folder, state(update), keep=2)
    assert folder.saved_updates() == [30, 40]


def test_the_newest_is_loaded_and_none_where_there_is_none(folder: RunFolder) -> None:
    epochs = Epochs(0, make_plan(compose(["exp=exp5"])))
    assert checkpoint.newest(folder) is None
    for update in (10, 20):
        checkpoint.save(folder, state(update), keep=2)
    assert checkpoint.newest(folder) == 20
    assert checkpoint.load(folder, 20, epochs, {}).update == 20


def test_another_grids_checkpoint_is_refused(folder: RunFolder) -> None:
    checkpoint.save(folder, state(10), keep=2)
    with pytest.raises(UserError, match="was saved with grid 2x2, this run has 1x4"):
        checkpoint.load(folder, 10, Epochs(0, make_plan(compose(["exp=exp5", "grid.vertical=1"]))), {})


def test_other_workers_go_on_where_that_is_asked_for_and_the_batches_are_the_same(folder: RunFolder) -> None:
    checkpoint.save(folder, state(10), keep=2)
    other = Epochs(0, make_plan(compose(["exp=exp5", "workers=2"])))
    with pytest.raises(
        UserError,
        match=r"with workers 4, this run has 2; start a new run, or go on with other workers by resume.regrid=true",
    ):
        checkpoint.load(folder, 10, other, {})
    assert checkpoint.load(folder, 10, other, {"workers": "2"}, regrid=True).update == 10
    with pytest.raises(UserError, match="updates_by_stage"):
        checkpoint.load(folder, 10, Epochs(0, make_plan(compose(["exp=exp6", "workers=2"]))), {}, regrid=True)


def test_another_configuration_is_refused_by_the_first_key_that_differs(folder: RunFolder) -> None:
    config, other = compose(["exp=exp5"]), compose(["exp=exp5", "optim.lr=2.5", "run.keep_checkpoints=9"])
    checkpoint.save(folder, replace(state(10), configuration=identity(config)), keep=2)
    with pytest.raises(UserError, match=r"was saved with optim.lr 3.1, this run has 2.5; start a new run$"):
        checkpoint.load(folder, 10, Epochs(0, make_plan(other)), identity(other))
    assert checkpoint.load(folder, 10, Epochs(0, make_plan(config)), identity(config)).update == 10


def test_other_nodes_are_refused_where_nodes_shuffle_their_own_samples(folder: RunFolder) -> None:
    plan = make_plan(compose(["exp=exp5"]))
    two, four = (Epochs(0, plan, layout) for layout in (((0, 1), (2, 3)), ((0,), (1,), (2,), (3,))))
    saved = checkpoint.State(10, {}, {}, {}, None, checkpoint.describe(replace(two, exchange_every=3)))
    checkpoint.save(folder, saved, keep=2)
    with pytest.raises(UserError, match=r"was saved with nodes 2 \+ 2, this run has 1 \+ 1 \+ 1 \+ 1"):
        checkpoint.load(folder, 10, replace(four, exchange_every=3), {})
    assert checkpoint.load(folder, 10, four, {}).update == 10  # with a global shuffle nodes do not matter


def test_a_damaged_one_is_named(folder: RunFolder) -> None:
    path = checkpoint.save(folder, state(10), keep=2)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UserError, match=r"update-000010.pt is damaged or no checkpoint"):
        checkpoint.read(path)


def test_the_checksum_is_what_sha256sum_checks(folder: RunFolder) -> None:
    checkpoint.save(folder, state(10), keep=2)
    checked = subprocess.run(
        ["sha256sum", "--check", "update-000010.pt.sha256"], cwd=folder.checkpoints, capture_output=True, check=False
    )
    assert checked.stdout == b"update-000010.pt: OK\n"


@pytest.mark.parametrize("damage", ["a bit in the middle", "cut off", "empty"])
def test_damaged_ones_are_named_and_the_one_before_is_used(folder: RunFolder, damage: str) -> None:
    for update in (10, 20, 30):
        path = checkpoint.save(folder, state(update), keep=3)
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    path.write_bytes({"a bit in the middle": flipped, "cut off": content[:middle], "empty": b""}[damage])
    (line,) = checkpoint.sift(folder)
    name = "update-000030.pt"
    assert line == f"{path} is damaged: its SHA-256 is not that of {name}.sha256; going on from update 20"
    assert folder.saved_updates() == [10, 20]
    assert (folder.checkpoints / f"{name}.damaged").exists()
    assert checkpoint.sift(folder) == []


def sealed(path: Path) -> None:
    """Give a checkpoint the checksum of what it holds now."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(f"{path.name}.sha256").write_text(f"{digest}  {path.name}\n")


def put_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def put_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def put_link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nowhere")


def put_endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def put_noise_with_its_sum(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 4)
    sealed(path)


def put_another_updates_state(path: Path) -> None:
    path.write_bytes(path.with_name("update-000010.pt").read_bytes())
    sealed(path)


def put_noise_as_its_sum(path: Path) -> None:
    path.with_name(f"{path.name}.sha256").write_bytes(bytes(range(256)))


def put_pipe_as_its_sum(path: Path) -> None:
    put_pipe(path.with_name(f"{path.name}.sha256"))


@pytest.mark.parametrize(
    "damage",
    [
        put_folder, put_pipe, put_link_to_nothing, put_endless, put_noise_with_its_sum, put_another_updates_state,
        put_noise_as_its_sum, put_pipe_as_its_sum,
    ],
)  # fmt: skip
def test_whatever_stands_in_a_checkpoints_place_gives_way_to_the_one_before(
    folder: RunFolder, damage: Callable[[Path], None]
) -> None:
    for update in (10, 20, 30):
        path = checkpoint.save(folder, state(update), keep=3)
    damage(path)
    (line,) = checkpoint.sift(folder)
    assert line.startswith(str(folder.checkpoints / "update-000030.pt"))
    assert line.endswith("; going on from update 20")
    assert folder.saved_updates() == [10, 20]
    assert os.path.lexists(folder.checkpoints / "update-000030.pt.damaged")
    checkpoint.save(folder, state(30), keep=3)
    assert checkpoint.check(folder.checkpoint(30)).update == 30


def test_a_checkpoint_beyond_the_runs_end_is_none_of_its(folder: RunFolder) -> None:
    for update in (10, 5000):
        checkpoint.save(folder, state(update), keep=3)
    (line,) = checkpoint.sift(folder, last=2010)
    assert line.endswith("update-005000.pt is damaged: the run ends at update 2010; going on from update 10")


def test_only_names_that_are_written_so_count(folder: RunFolder) -> None:
    checkpoint.save(folder, state(10), keep=3)
    for name in ("update-\u0667\u0667\u0667777.pt", "update-0000000011.pt", "update-7.pt", "update-best.pt"):
        (folder.checkpoints / name).write_bytes(b"x")
    (folder.checkpoints / ".update-000020.pt.4711").mkdir()
    assert folder.saved_updates() == [10]
    assert checkpoint.sift(folder) == []


def test_a_run_none_of_whose_checkpoints_is_good_does_not_begin_anew(folder: RunFolder) -> None:
    path = checkpoint.save(folder, state(10), keep=2)
    path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(UserError, match=r"no checkpoint of .* is good: .*; to begin anew, remove what is in"):
            checkpoint.sift(folder)


def test_one_without_a_checksum_is_used_if_it_opens(folder: RunFolder) -> None:
    for update in (10, 20):
        path = checkpoint.save(folder, state(update), keep=2)
        path.with_name(f"{path.name}.sha256").unlink()
    path.write_bytes(path.read_bytes()[:-100])
    (line,) = checkpoint.sift(folder)
    assert "update-000020.pt is damaged or no checkpoint" in line


def test_what_an_interrupted_writer_left_goes(folder: RunFolder) -> None:
    checkpoint.save(folder, state(10), keep=2)
    (folder.checkpoints / ".update-000020.pt.4711").write_bytes(b"x")
    assert checkpoint.sift(folder) == []
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["update-000010.pt", "update-000010.pt.sha256"]


def test_a_pickle_that_would_run_code_is_refused_by_every_reader(folder: RunFolder) -> None:
    canary = folder.path / "canary"

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(canary),)

    path = checkpoint.save(folder, state(1), keep=2)
    torch.save({"update": Evil()}, path)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(f"{path.name}.sha256").write_text(f"{checksum}  {path.name}\n")  # who writes one writes the other
    save(compose(["exp=exp5"]), folder.config)
    readers: list[Callable[[], object]] = [
        lambda: checkpoint.sift(folder),
        lambda: checkpoint.read(path),
        lambda: checkpoint.load(folder, 1, Epochs(0, make_plan(compose(["exp=exp5"]))), {}),
        lambda: evaluate(folder, None),
        lambda: evaluate(folder, path),
    ]
    for read in readers:
        with pytest.raises(UserError, match="is damaged or no checkpoint"):
            read()
    path.with_name(f"{path.name}.sha256").unlink()
    with pytest.raises(UserError, match="is damaged or no checkpoint"):
        checkpoint.sift(folder)
    assert not canary.exists()
    torch.load(path, weights_only=False)
    assert canary.exists(), "it does run code, where it is let"


def test_a_full_disk_leaves_the_old_one_and_no_scrap(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(folder, state(10), keep=2)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"update-000020.pt cannot be written: No space left on device"):
        checkpoint.save(folder, state(20), keep=2)
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["update-000010.pt", "update-000010.pt.sha256"]
