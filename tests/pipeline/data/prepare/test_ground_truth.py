"""The classes of the validation images are read from any of the files that are about, and never guessed."""

from pathlib import Path

import pytest

from pipeline.data.prepare.ground_truth import wnids_by_number
from pipeline.errors import UserError
from tests.pipeline.data.prepare import ilsvrc

EXPECTED = {number: wnid for number, (wnid, _) in enumerate(ilsvrc.validation_images().values(), 1)}


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def test_the_kit_is_read_packed_unpacked_and_by_its_two_files(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("packed", "unpacked", "files")}
    folders["packed"].mkdir()
    ilsvrc.write_kit(folders["packed"])
    for where in (folders["unpacked"] / "ILSVRC2012_devkit_t12" / "data", folders["files"]):
        where.mkdir(parents=True)
        for name, content in ilsvrc.kit_files().items():
            (where / name).write_bytes(content)
    for folder in folders.values():
        assert wnids_by_number(folder, None)[0] == EXPECTED


def test_lists_of_wordnet_ids_are_read_in_order_and_by_name(tmp_path: Path) -> None:
    in_order = "".join(f"{wnid}\n" for wnid in EXPECTED.values())
    by_name = "".join(f"ILSVRC2012_val_{number:08d}.JPEG {EXPECTED[number]}\n" for number in reversed(EXPECTED))
    kaggles = "ImageId,PredictionString\n" + "".join(
        f"ILSVRC2012_val_{number:08d},{EXPECTED[number]} 85 1 499 272 \n" for number in reversed(EXPECTED)
    )
    for name, text in (("a.txt", in_order), ("b.txt", by_name), ("c.csv", kaggles)):
        assert wnids_by_number(tmp_path / "elsewhere", str(write(tmp_path, name, text)))[0] == EXPECTED
    write(tmp_path, "LOC_val_solution.csv", kaggles)
    assert wnids_by_number(tmp_path, None)[0] == EXPECTED


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (None, "", "has no ground truth of the validation images; ILSVRC2012_devkit_t12.tar.gz beside"),
        ("ILSVRC2012_validation_ground_truth.txt", "490\n361\n", "own numbers, which are no labels"),
        ("LOC_val_solution.csv", "ILSVRC2012_val_00000001.JPEG 65\n", "line 1: '65' is no WordNet id"),
        ("LOC_val_solution.csv", "n01440764\nsea snake\n", "line 2: 'sea' is no WordNet id"),
        ("ILSVRC2012_devkit_t12.tar.gz", "<html>", "devkit_t12.tar.gz cannot be read"),
    ],
)  # fmt: skip
def test_what_is_missing_or_says_nothing_is_told_with_what_would_do(
    tmp_path: Path, name: str | None, text: str, line: str
) -> None:
    if name:
        write(tmp_path, name, text)
    with pytest.raises(UserError, match=line):
        wnids_by_number(tmp_path, None)
