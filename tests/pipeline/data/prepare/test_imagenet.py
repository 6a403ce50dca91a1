"""ImageNet's two tars become shards with the labels that everybody has, and the report names all that was odd."""

import hashlib
import io
import json
import shutil
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.datasets import imagenet as torchvisions

from pipeline.data.decode import Decoder, Views
from pipeline.data.decode_dali import DaliDecoder
from pipeline.data.decode_torchvision import TorchvisionDecoder
from pipeline.data.shards import read_classes, read_index
from tests.pipeline.data.prepare import ilsvrc
from tests.pipeline.data.prepare.command import prepare, read_rows, read_split, report_of

LABELS = {"n01440764": 0, "n02105855": 1, "n02676566": 2, "n03000134": 3, "n09472597": 4}
"""The place of each id among all, sorted, by hand."""
CONVERTED = ("n01440764_9002", "n02105855_2933")


@pytest.fixture(scope="module")
def train(prepared: Path) -> dict[str, tuple[bytes, int]]:
    return read_split(prepared, "train")


def unpacked() -> dict[str, tuple[bytes, int]]:
    """Images and labels by stem, as they lie in folders once tar unpacked them, without those that do not decode."""
    odd = {name.partition("/")[2]: kind for name, (kind, _) in ilsvrc.odd_images().items()}
    return {
        name.removesuffix(".JPEG"): (content, LABELS[wnid])
        for wnid, members in ilsvrc.train_images().items()
        for name, content in members
        if odd.get(name) not in ("unreadable", "passed over")
    }


def test_all_training_images_are_there_byte_for_byte_with_their_labels(train: dict[str, tuple[bytes, int]]) -> None:
    expected = unpacked()
    assert train.keys() == expected.keys()
    assert len(train) == 5 * ilsvrc.IMAGES_A_CLASS + 5  # five odd ones can be decoded
    assert {key: found for key, found in train.items() if key not in CONVERTED} == {
        key: found for key, found in expected.items() if key not in CONVERTED
    }


def test_cmyk_and_png_become_rgb_jpegs_of_the_same_pixels(train: dict[str, tuple[bytes, int]]) -> None:
    for key in CONVERTED:
        with Image.open(io.BytesIO(train[key][0])) as kept, Image.open(io.BytesIO(unpacked()[key][0])) as original:
            assert (kept.format, kept.mode, kept.size) == ("JPEG", "RGB", original.size)
            difference = np.asarray(kept, np.int64) - np.asarray(original.convert("RGB"), np.int64)
            assert np.abs(difference).mean() < 1


def test_the_kits_numbers_become_the_labels_that_torchvision_gives(
    prepared: Path, tars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(tars / "ILSVRC2012_devkit_t12.tar.gz", tmp_path)
    monkeypatch.setattr(torchvisions, "_verify_archive", lambda *_: None)  # it knows the real kit's checksum
    torchvisions.parse_devkit_archive(str(tmp_path))
    _, wnids = torch.load(tmp_path / torchvisions.META_FILE, weights_only=True)
    found = read_split(prepared, "validation")
    expected = {f"ILSVRC2012_val_{number:08d}": sorted(LABELS).index(wnid) for number, wnid in enumerate(wnids, 1)}
    assert {key: label for key, (_, label) in found.items()} == expected
    assert expected == {
        name.removesuffix(".JPEG"): LABELS[wnid] for name, (wnid, _) in ilsvrc.validation_images().items()
    }
    assert {f"{key}.JPEG": image for key, (image, _) in found.items()} == {
        name: image for name, (_, image) in ilsvrc.validation_images().items()
    }


def test_the_report_names_every_oddity_and_nothing_else(prepared: Path) -> None:
    expected: dict[str, set[str]] = {"duplicate": {ilsvrc.REPLACED}}
    for name, (kind, _) in ilsvrc.odd_images().items():
        expected.setdefault(kind, set()).add(name)
    found = {
        kind: {name.removeprefix("ILSVRC2012_img_train.tar/").replace(".tar/", "/") for name in names}
        for kind, names in report_of(prepared).items()
    }
    assert found == expected
    assert json.loads((prepared / "manifest.json").read_text())["oddities"] == {
        kind: len(names) for kind, names in expected.items()
    }


def test_every_line_of_an_index_is_right(prepared: Path) -> None:
    for split in ("train", "validation"):
        images = read_split(prepared, split)
        rows = read_rows(prepared, split)
        assert [row["key"] for row in rows] == list(images)
        for row in rows:
            image, label = images[row["key"]]
            offset, size = int(row["offset"]), int(row["size"])
            assert (prepared / row["tar"]).read_bytes()[offset : offset + size] == image
            assert (int(row["label"]), int(row["crc32"])) == (label, zlib.crc32(image))
            with Image.open(io.BytesIO(image)) as opened:
                assert (int(row["width"]), int(row["height"])) == opened.size


def test_the_manifest_has_counts_sizes_and_checksums(prepared: Path) -> None:
    manifest = json.loads((prepared / "manifest.json").read_text())
    assert (manifest["name"], manifest["source"]) == ("ImageNet", "ILSVRC2012 tars")
    assert manifest["class_names"] == sorted(LABELS)
    for split, samples in (("train", 255), ("validation", 40)):
        part = manifest["splits"][split]
        contents = [(prepared / shard["name"]).read_bytes() for shard in part["shards"]]
        assert part["samples"] == sum(shard["samples"] for shard in part["shards"]) == samples
        assert part["bytes"] == sum(map(len, contents))
        assert [shard["sha256"] for shard in part["shards"]] == [hashlib.sha256(one).hexdigest() for one in contents]
        assert len(read_index(prepared, split)) == samples
    assert read_classes(prepared) == 5


def test_both_decoders_of_the_pipeline_read_every_image(prepared: Path) -> None:
    decoders: list[Decoder] = [TorchvisionDecoder(32), DaliDecoder(32)]
    for split in ("train", "validation"):
        images = [np.frombuffer(bytearray(image), np.uint8) for image, _ in read_split(prepared, split).values()]
        windows = [(0, 0, int(row["height"]), int(row["width"])) for row in read_rows(prepared, split)]
        views = Views(images, np.array(windows, np.int64), np.zeros(len(images), np.bool_))
        pixels = [decoder.decode(views) for decoder in decoders]
        assert [decoded.faults for decoded in pixels] == [{}, {}]
        assert (pixels[0].pixels.double() - pixels[1].pixels.double()).abs().mean() < 1


def test_shards_are_of_about_the_size_asked_for(prepared: Path) -> None:
    sizes = [path.stat().st_size for path in prepared.glob("train-*.tar")]
    assert len(sizes) > 5
    assert max(sizes) < 1.25 * 100_000  # a sample more than its share, and tar's last record
    assert min(sizes) > 0.6 * 100_000


def test_every_prefix_has_each_class_in_proportion_within_one_image(train: dict[str, tuple[bytes, int]]) -> None:
    labels = [label for _, label in train.values()]
    whole = Counter(labels)
    for size in range(1, len(labels)):
        counts = Counter(labels[:size])
        for label, count in whole.items():  # one for itself; five classes, each one off, move it by 5 of 255 of 53
            assert abs(counts[label] - size * count / len(labels)) < 1 + 5 / 255 * 53
    assert list(train) != sorted(train)


def test_unreadable_images_fail_the_command_unless_they_are_left_out_and_nothing_is_done_twice(
    tars: Path, prepared: Path, tmp_path: Path
) -> None:
    refused = prepare(tmp_path / "data", tars, "prepare.shard_bytes=100000")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert f"3 images cannot be decoded: {tmp_path}/data/report.txt names them" in refused.stderr
    assert "ARGS=prepare.unreadable=leave_out" in refused.stderr
    assert len(report_of(tmp_path / "data")["unreadable"]) == 3
    assert not (tmp_path / "data" / "manifest.json").exists()
    written = {path.name: path.stat().st_ino for path in (tmp_path / "data").glob("*.tar")}
    accepted = prepare(tmp_path / "data", tars, "prepare.shard_bytes=100000", "prepare.unreadable=leave_out")
    assert accepted.returncode == 0, accepted.stderr
    assert {path.name: path.stat().st_ino for path in (tmp_path / "data").glob("*.tar")} == written
    assert (tmp_path / "data" / "manifest.json").read_bytes() == (prepared / "manifest.json").read_bytes()
