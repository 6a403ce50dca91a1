"""Shards are WebDataset tars that others can read, with an index that is right to the byte."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.data.shards import read_classes, read_index
from pipeline.errors import UserError
from tests.pipeline.data.images import jpeg, write_images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_images(tmp_path, train=[jpeg(i) for i in range(40)], validation=[jpeg(100 + i) for i in range(5)])
    return tmp_path


def test_the_index_points_at_the_images_that_tarfile_finds(folder: Path) -> None:
    index = read_index(folder, "train")
    assert (len(index), len(index.shards)) == (40, 3)
    for sample in range(40):
        tar_path = folder / index.shards[index.shard[sample]]
        content = tar_path.read_bytes()[index.offset[sample] : index.offset[sample] + index.size[sample]]
        with tarfile.open(tar_path) as tar:
            image, label = (tar.extractfile(f"{index.key(sample)}.{kind}") for kind in ("jpg", "cls"))
            assert image is not None
            assert label is not None
            assert image.read() == content == jpeg(sample)
            assert int(label.read()) == index.label[sample] == sample % 10


def test_the_largest_image_is_the_one_of_most_pixels(folder: Path) -> None:
    index = read_index(folder, "train")
    index.width[7], index.height[7] = 40, 30
    index.width[8], index.height[8] = 60, 3
    assert index.largest == (40, 30)


def test_the_same_images_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    write_images(again, train=[jpeg(i) for i in range(40)], validation=[jpeg(100 + i) for i in range(5)])
    for path in sorted(again.iterdir()):
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name


def test_the_sample_is_5000_digits_balanced_in_every_prefix(sample: Path) -> None:
    train, validation = read_index(sample, "train"), read_index(sample, "validation")
    assert (len(train), len(validation), read_classes(sample)) == (4000, 1000, 10)
    assert [int((validation.label == one).sum()) for one in range(10)] == [100] * 10
    counts = [int((train.first(2355).label == one).sum()) for one in range(10)]
    assert sorted(set(counts)) == [235, 236]


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must be a folder of prepared shards"):
        read_index(tmp_path, "train")


def test_a_damaged_manifest_is_named(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        read_index(folder, "train")


def test_another_format_is_named(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text()) | {"format": 99}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="has format 99, this version reads 2"):
        read_index(folder, "train")


def test_a_missing_split_is_named(folder: Path) -> None:
    with pytest.raises(UserError, match="it has train, validation"):
        read_index(folder, "test")


def test_a_missing_shard_is_named(folder: Path) -> None:
    (folder / "train-000001.tar").unlink()
    with pytest.raises(UserError, match=r"train-000001.tar: no such file"):
        read_index(folder, "train")


def test_a_truncated_shard_is_named(folder: Path) -> None:
    path = folder / "train-000002.tar"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"train-000002.tar has [\d,]+ bytes, manifest.json says"):
        read_index(folder, "train")


def test_a_missing_or_foreign_index_is_named(folder: Path) -> None:
    (folder / "train-000000.tsv").write_text("a\tb\n")
    with pytest.raises(UserError, match="is no index"):
        read_index(folder, "train")
    (folder / "train-000000.tsv").unlink()
    with pytest.raises(UserError, match=r"train-000000.tsv: no such file"):
        read_index(folder, "train")


INDEX_DAMAGE = {
    "no text": (bytes(range(128, 256)) * 40, "is no index"),
    "no text behind the header": (b"HEADER" + bytes(range(128, 256)) * 40 + b"\n", "sample 1: not a line"),
    "a late row of no text": (b"WHOLE\xff\xfe\n", "sample 16: not a line"),
    "an offset beyond the shard": (b"WHOLEk\t999999999\t5\t1\t28\t28\t7\n", "sample 16: not a line"),
    "a size of 2^63 - 1": (b"WHOLEk\t512\t9223372036854775807\t1\t28\t28\t7\n", "sample 16: not a line"),
    "an offset of 2^64": (b"WHOLEk\t18446744073709551616\t5\t1\t28\t28\t7\n", "sample 16: not a line"),
    "nothing": (b"", "is no index"),
}


@pytest.mark.parametrize("damage", INDEX_DAMAGE)
def test_a_damaged_index_is_named_with_its_first_bad_line(folder: Path, damage: str) -> None:
    content, expected = INDEX_DAMAGE[damage]
    path = folder / "train-000001.tsv"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(content.replace(b"HEADER", lines[0]).replace(b"WHOLE", b"".join(lines[:-1])))
    with pytest.raises(UserError, match=f"train-000001.tsv.*{expected}"):
        read_index(folder, "train")


MANIFEST_DAMAGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no shards": lambda train: train.pop("shards"),
    "shards are text": lambda train: train.update(shards="abc"),
    "no name": lambda train: train["shards"][0].pop("name"),
    "a number for a name": lambda train: train["shards"][0].update(name=5),
    "a name that climbs": lambda train: train["shards"][0].update(name="../train-000000.tar"),
    "text for bytes": lambda train: train["shards"][0].update(bytes="1187840"),
    "a shard twice": lambda train: train["shards"].append(train["shards"][0]),
}


@pytest.mark.parametrize("damage", MANIFEST_DAMAGE)
def test_a_manifest_whose_shards_are_none_is_named(folder: Path, damage: str) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    MANIFEST_DAMAGE[damage](manifest["splits"]["train"])
    path.write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"manifest.json.*(does not list the shards of|is no shard)"):
        read_index(folder, "train")


def test_a_manifest_nested_without_end_is_damaged(folder: Path) -> None:
    (folder / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="is damaged"):
        read_index(folder, "train")
