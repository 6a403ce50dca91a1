"""Data that are damaged, or for which a node has no room: a run of them ends before it harms anything, in one line."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.data.shard_writer import Sample, write_manifest, write_split
from pipeline.data.shards import read_index
from pipeline.run_folder import RunFolder
from tests.faults import mounts as mounting
from tests.faults.mounts import Mounts
from tests.faults.runs import exit_code, go_on, leaves_nothing, strike

lacking = mounting.missing()


def truncate(images: list[bytes]) -> None:
    images[77] = images[77][:300]


def copy_sample(sample: Path, folder: Path, change: Callable[[list[bytes]], None]) -> None:
    """The sample with its training images changed before they were prepared."""
    folder.mkdir()
    splits = {}
    for split in ("train", "validation"):
        index = read_index(sample, split)
        shards = [(sample / name).read_bytes() for name in index.shards]
        images = [shards[index.shard[i]][index.offset[i] : index.offset[i] + index.size[i]] for i in range(len(index))]
        if split == "train":
            change(images)
        samples = [Sample(index.key(i), image, int(index.label[i]), 28, 28) for i, image in enumerate(images)]
        splits[split] = write_split(folder, split, samples, samples_per_shard=1000)
    write_manifest(folder, name="damaged", classes=10, splits=splits)


def from_the_start() -> bool:
    """Nothing is to be done to the run: its data do it."""
    return True


def test_a_truncated_jpeg_gives_its_one_line(repository: Path, sample: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    copy_sample(sample, data, truncate)
    folder = RunFolder(tmp_path / "run")
    more = [f"data.path={data}", "data.train_samples=640"]
    struck = strike(repository, folder, lambda: None, *more, when=from_the_start)
    assert re.search(r"rank \d: sample train-7-0007 in .*/train-000000.tar cannot be decoded", struck.line)
    assert exit_code(folder) == 1
    assert folder.read_result() is None
    leaves_nothing(folder)
    struck.row("a corrupt JPEG", "as after a damaged shard; data.on_bad_sample=replace goes on without it")


@pytest.mark.long
def test_a_byte_of_a_shard_that_has_changed_is_found_before_the_first_update(
    repository: Path, sample: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    copy_sample(sample, data, lambda images: None)  # noqa: ARG005
    index = read_index(data, "train")
    shard = data / "train-000000.tar"
    whole = shard.read_bytes()
    damaged = bytearray(whole)
    damaged[int(index.offset[77]) + 200] ^= 1
    shard.write_bytes(damaged)
    folder = RunFolder(tmp_path / "run")
    struck = strike(repository, folder, lambda: None, f"data.path={data}", workers=2, when=from_the_start)
    words = r"train-7-0007 in .*/train-000000.tar differs from what was prepared, by its checksum"
    assert re.search(words, struck.line)
    assert exit_code(folder) == 1
    assert not folder.metrics.exists()
    leaves_nothing(folder)
    shard.write_bytes(whole)
    struck.row("a damaged shard", f"with the whole one, {go_on(repository, folder)}")


@pytest.mark.long
@pytest.mark.skipif(bool(lacking), reason=f"nothing can be mounted here: {lacking}")
def test_a_shared_memory_that_is_too_small_is_told_with_both_numbers(repository: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with Mounts() as mounts:
        mounts.small(Path("/dev/shm"), 2**20)
        struck = strike(repository, folder, lambda: None, inside=mounts.command, when=from_the_start)
    assert re.search(r"/dev/shm has 0\.00\d+ GB free and 0\.00\d+ GB of samples go there", struck.line)
    assert exit_code(folder) == 1
    leaves_nothing(folder)
    struck.row("a shared memory that is too small", f"where there is room, {go_on(repository, folder)}")
