"""Staging: what is mapped is what the shards hold, and nothing stays in the folder of the node's memory."""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from pipeline.data import memory
from pipeline.data.shards import read_index
from pipeline.errors import UserError
from pipeline.evaluate import OneProcess
from tests.pipeline.data.images import jpeg, write_images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_images(tmp_path / "data", train=[jpeg(i) for i in range(40)], validation=[jpeg(100 + i) for i in range(5)])
    return tmp_path / "data"


@pytest.fixture
def shm(tmp_path: Path) -> Path:
    (tmp_path / "shm").mkdir()
    return tmp_path / "shm"


class Threads:
    """A node whose workers are threads."""

    def __init__(self, rank: int, shared: dict[str, str | None], barrier: threading.Barrier) -> None:
        self._rank, self._shared, self._barrier = rank, shared, barrier

    def Get_rank(self) -> int:
        return self._rank

    def bcast(self, obj: str | None, root: int = 0) -> str | None:
        if self._rank == root:
            self._shared["path"] = obj
        self._barrier.wait()
        return self._shared["path"]

    def Barrier(self) -> None:
        self._barrier.wait()


def test_every_sample_is_there_and_the_file_has_no_name_any_more(folder: Path, shm: Path) -> None:
    train, validation = memory.stage(
        [read_index(folder, "train"), read_index(folder, "validation")], OneProcess(), folder=shm
    )
    assert [train.image(i).tobytes() for i in range(40)] == [jpeg(i) for i in range(40)]
    assert [validation.image(i).tobytes() for i in range(5)] == [jpeg(100 + i) for i in range(5)]
    assert list(shm.iterdir()) == []


def test_only_the_first_samples_are_staged_where_that_is_asked(folder: Path, shm: Path) -> None:
    (train,) = memory.stage([read_index(folder, "train").first(20)], OneProcess(), folder=shm)
    assert len(train.index) == 20
    assert train.image(19).tobytes() == jpeg(19)


def test_all_workers_of_a_node_map_one_file(folder: Path, shm: Path) -> None:
    shared: dict[str, str | None] = {}
    barrier = threading.Barrier(3)
    found: dict[int, bytes] = {}

    def work(rank: int) -> None:
        (train,) = memory.stage([read_index(folder, "train")], Threads(rank, shared, barrier), folder=shm)
        found[rank] = train.image(39).tobytes()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == dict.fromkeys(range(3), jpeg(39))
    assert list(shm.iterdir()) == []


def test_a_dead_runs_file_is_removed_and_a_living_ones_is_not(shm: Path) -> None:
    dead, living = shm / "torus224-dead", shm / "torus224-living"
    for path in (dead, living):
        path.write_bytes(b"x")
    with living.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert memory.remove_stale(shm) == [dead]
    assert not dead.exists()
    assert living.exists()


def test_too_little_memory_is_said_with_both_numbers(folder: Path, shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = os.statvfs(shm)
    full = os.statvfs_result([*space[:4], 0, *space[5:]])
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(UserError, match=r"has 0 bytes free and the samples need [\d,]+"):
        memory.stage([read_index(folder, "train")], OneProcess(), folder=shm)


def test_a_shard_that_shrank_since_its_index_was_read_is_named(folder: Path, shm: Path) -> None:
    index = read_index(folder, "train")
    path = folder / "train-000002.tar"
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(UserError, match=r"train-00\d\d in .*train-000002.tar: the shard ends before it"):
        memory.stage([index], OneProcess(), folder=shm)
    assert list(shm.iterdir()) == []
