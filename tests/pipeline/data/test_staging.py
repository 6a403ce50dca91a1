"""Staging: what is mapped is what the shards hold, and nothing stays in the folder of the node's memory."""

import fcntl
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.data import staging
from pipeline.data.segment import Communicator, remove_stale, share
from pipeline.data.shards import read_index
from pipeline.data.staging import stage
from pipeline.errors import UserError
from pipeline.evaluate import OneProcess
from tests.pipeline.data.communicators import in_threads
from tests.pipeline.data.images import jpeg, write_images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_images(tmp_path / "data", train=[jpeg(i) for i in range(40)], validation=[jpeg(100 + i) for i in range(5)])
    return tmp_path / "data"


@pytest.fixture
def shm(tmp_path: Path) -> Path:
    (tmp_path / "shm").mkdir()
    return tmp_path / "shm"


def test_every_sample_is_there_and_the_file_has_no_name_any_more(folder: Path, shm: Path) -> None:
    train, validation = stage([read_index(folder, "train"), read_index(folder, "validation")], OneProcess(), folder=shm)
    assert [train.image(i).tobytes() for i in range(40)] == [jpeg(i) for i in range(40)]
    assert [validation.image(i).tobytes() for i in range(5)] == [jpeg(100 + i) for i in range(5)]
    assert list(shm.iterdir()) == []


def test_only_the_first_samples_are_staged_where_that_is_asked(folder: Path, shm: Path) -> None:
    (train,) = stage([read_index(folder, "train").first(20)], OneProcess(), folder=shm)
    assert len(train.index) == 20
    assert train.image(19).tobytes() == jpeg(19)


def test_all_workers_of_a_node_map_one_file(folder: Path, shm: Path) -> None:
    found = in_threads(3, lambda node: stage([read_index(folder, "train")], node, folder=shm)[0].image(39).tobytes())
    assert found == [jpeg(39)] * 3
    assert list(shm.iterdir()) == []


def test_workers_share_the_reading_and_tell_how_far_they_are(
    folder: Path, shm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: Counter[int] = Counter()
    told: list[tuple[int, int]] = []
    index = read_index(folder, "train")
    read_sample = staging._read_sample
    monkeypatch.setattr(staging, "SHOWN_EVERY_S", 0.0)

    def counted(*words: Any) -> int:
        reads[threading.get_ident()] += 1
        return read_sample(*words)

    monkeypatch.setattr(staging, "_read_sample", counted)

    def work(node: Communicator) -> None:
        pieces = staging.in_a_row([(index, np.arange(40))])
        segment = share(node, pieces[-1].stop, fields=3, folder=shm)
        staging.bring_in(pieces, segment, node, node, lambda *done: told.append(done))

    in_threads(3, work)
    assert sum(reads.values()) == 40
    assert all(10 <= count <= 17 for count in reads.values())
    total = int(index.size.sum())
    assert told[-1] == (total, total)
    assert all(0 < done <= total for done, _ in told)


def test_an_image_that_changed_since_it_was_prepared_is_named(folder: Path, shm: Path) -> None:
    index = read_index(folder, "train")
    with (folder / "train-000001.tar").open("r+b") as file:
        file.seek(int(index.offset[20]) + 300)
        file.write(b"\0\1\2")

    def work(node: Communicator) -> str:
        with pytest.raises(
            UserError, match=r"train-0020 in .*train-000001.tar differs from what was prepared"
        ) as error:
            stage([index], node, folder=shm)
        return str(error.value)

    assert len(set(in_threads(3, work))) == 1
    assert list(shm.iterdir()) == []


def test_a_dead_runs_file_is_removed_and_a_living_ones_is_not(shm: Path) -> None:
    dead, living = shm / "torus224-dead", shm / "torus224-living"
    for path in (dead, living):
        path.write_bytes(b"x")
    with living.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert remove_stale(shm) == [dead]
    assert not dead.exists()
    assert living.exists()


def test_too_little_memory_is_said_with_both_numbers(folder: Path, shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = os.statvfs(shm)
    full = os.statvfs_result([*space[:4], 0, *space[5:]])
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(UserError, match=r"has 0 bytes free and the samples need [\d,]+"):
        stage([read_index(folder, "train")], OneProcess(), folder=shm)


def test_a_shard_that_shrank_since_its_index_was_read_is_named(folder: Path, shm: Path) -> None:
    index = read_index(folder, "train")
    path = folder / "train-000002.tar"
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(UserError, match=r"train-00\d\d in .*train-000002.tar: the shard ends before it"):
        stage([index], OneProcess(), folder=shm)
    assert list(shm.iterdir()) == []
