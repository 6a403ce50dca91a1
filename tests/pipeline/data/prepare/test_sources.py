"""Class folders and WebDataset tars are recognised, and labelled as torchvision and WebDataset label them."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torchvision.datasets import ImageFolder

from pipeline.data.prepare.options import Options
from pipeline.data.prepare.plan import hold_out, in_order
from pipeline.data.prepare.reader import Reader
from pipeline.data.prepare.recognise import read_source
from pipeline.data.prepare.source import Source
from pipeline.errors import UserError
from tests.pipeline.data.prepare import ilsvrc
from tests.pipeline.data.prepare.command import prepare, read_split

IMAGES = [ilsvrc.encoded(ilsvrc.photo(number)) for number in range(12)]


def read(*paths: Path) -> Source:
    with ThreadPoolExecutor(1) as pool:
        return read_source(list(paths), Options(), pool)


def found(source: Source, split: str) -> set[tuple[bytes, int]]:
    with Reader() as reader:
        return {(reader.read(image), image.label) for image in source.images[split]}


def write_folders(top: Path, names: tuple[str, ...] = ("b cat", "Ant", "a dog")) -> Path:
    """Three images a class; one in a folder below it, one of a name that is no image's beside them."""
    for place, name in enumerate(names):
        (top / name / "more").mkdir(parents=True)
        for number, below in enumerate(("1.jpg", "2.v2.JPEG", "more/1.png")):
            (top / name / below).write_bytes(IMAGES[place * 3 + number])
        (top / name / "notes.txt").write_text("-")
        (top / name / "._1.jpg").write_text("-")
    return top


def test_class_folders_are_labelled_as_torchvision_labels_them(tmp_path: Path) -> None:
    write_folders(tmp_path / "train")
    shutil.copytree(tmp_path / "train" / "a dog", tmp_path / "val" / "a dog")
    (tmp_path / "val" / "a dog" / "2.v2.JPEG").unlink()
    source = read(tmp_path)
    for path in tmp_path.rglob("._*"):
        path.unlink()  # torchvision would take these for images
    theirs = ImageFolder(str(tmp_path / "train"))
    assert source.classes == theirs.classes
    assert found(source, "train") == {(Path(path).read_bytes(), label) for path, label in theirs.samples}
    assert found(source, "validation") == {(IMAGES[6], 1), (IMAGES[8], 1)}
    assert {oddity.name for oddity in source.oddities if oddity.split == "validation"} == {
        "val/a dog/notes.txt", "val/a dog/._1.jpg",
    }  # fmt: skip


def test_keys_are_what_webdataset_can_read_and_no_two_are_alike(tmp_path: Path) -> None:
    write_folders(tmp_path / "from")
    done = prepare(tmp_path / "data", tmp_path / "from")
    assert done.returncode == 0, done.stderr
    images = read_split(tmp_path / "data", "train")
    assert set(images) == {
        "Ant-1", "Ant-2-v2", "Ant-more-1", "a-dog-1", "a-dog-2-v2", "a-dog-more-1", "b-cat-1", "b-cat-2-v2",
        "b-cat-more-1",
    }  # fmt: skip
    assert {image for image, _ in images.values()} == set(IMAGES[:9])


def test_a_share_of_each_class_is_held_out_and_it_is_always_the_same(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(20):
            (tmp_path / name / f"{number}.jpg").write_bytes(b"x")
    held_out = []
    for _ in range(2):
        source = read(tmp_path)
        source.images["train"].reverse()
        hold_out(source, 0.25)
        held_out.append({image.name for image in source.images["validation"]})
        assert [sum(image.label == label for image in source.images["validation"]) for label in (0, 1)] == [5, 5]
        assert not held_out[-1] & {image.name for image in source.images["train"]}
        assert len(source.images["train"]) == 30
    assert held_out[0] == held_out[1]
    with pytest.raises(UserError, match="is for a source that has nothing to validate with; this one has 10 images"):
        hold_out(source, 0.25)


def test_of_two_images_one_is_held_out_and_of_one_none(tmp_path: Path) -> None:
    for name in ("a/1.jpg", "a/2.jpg", "b/1.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    source = read(tmp_path)
    hold_out(source, 0.01)
    assert [image.label for image in source.images["validation"]] == [0]
    assert sorted(image.label for image in source.images["train"]) == [0, 1]
    (tmp_path / "a" / "2.jpg").unlink()
    with pytest.raises(UserError, match=r"prepare\.validation_share=0\.9 holds out nothing: each class has one image"):
        hold_out(read(tmp_path), 0.9)


@pytest.mark.parametrize("labels", ["cls", "json"])
def test_webdataset_tars_are_read_by_their_names_and_labels(tmp_path: Path, labels: str) -> None:
    label = {"cls": lambda number: str(number).encode(), "json": lambda number: json.dumps({"label": number}).encode()}
    for name, first in (("set-train-00.tar", 0), ("set-train-01.tar", 4), ("set-validation-00.tar", 8)):
        members = [
            member
            for number in range(4)
            for member in (
                (f"x/{number:04d}.jpg", IMAGES[first + number]),
                (f"x/{number:04d}.{labels}", label[labels](number + first % 3)),
            )
        ]
        (tmp_path / name).write_bytes(ilsvrc.tar_of(members))
    source = read(tmp_path)
    assert source.kind == "WebDataset tars"
    assert source.classes == ["0", "1", "2", "3", "4", "5"]
    assert found(source, "train") == {(IMAGES[n], n % 4 + n // 4) for n in range(8)}
    assert found(source, "validation") == {(IMAGES[8 + n], n + 2) for n in range(4)}
    assert {key for key, _ in in_order("train", source.images["train"])} == {
        f"set-train-0{tar}-x-000{n}" for tar in range(2) for n in range(4)
    }  # fmt: skip


def test_names_of_classes_are_labels_in_sorted_order(tmp_path: Path) -> None:
    members = [("1.png", IMAGES[0]), ("1.cls", b"zebra\n"), ("2.jpg", IMAGES[1]), ("2.cls", b"ant")]
    (tmp_path / "train.tar").write_bytes(ilsvrc.tar_of(members))
    source = read(tmp_path / "train.tar")
    assert source.classes == ["ant", "zebra"]
    assert found(source, "train") == {(IMAGES[0], 1), (IMAGES[1], 0)}


def test_the_shards_are_webdataset_tars_that_can_be_prepared_again(prepared: Path, tmp_path: Path) -> None:
    source = read(*sorted(prepared.glob("*.tar")))
    for split in ("train", "validation"):
        assert found(source, split) == set(read_split(prepared, split).values())
    shutil.copytree(prepared, tmp_path / "copy")
    assert {image.name for image in read(tmp_path / "copy").images["train"]} == {
        image.name for image in source.images["train"]
    }


def test_imagenets_tars_are_known_by_what_is_in_them(tars: Path, tmp_path: Path) -> None:
    train, validation = tmp_path / "a.tar", tmp_path / "b.tar"
    train.symlink_to(tars / "ILSVRC2012_img_train.tar")
    validation.symlink_to(tars / "ILSVRC2012_img_val.tar")
    (tmp_path / "ILSVRC2012_devkit_t12.tar.gz").symlink_to(tars / "ILSVRC2012_devkit_t12.tar.gz")
    source = read(validation, train)
    assert source.kind == "ILSVRC2012 tars"
    assert [len(source.images[split]) for split in ("train", "validation")] == [258, 40]


def test_validation_images_in_one_folder_are_labelled_by_the_ground_truth(tmp_path: Path) -> None:
    write_folders(tmp_path / "train", ("n02000001", "n01000001"))
    (tmp_path / "val").mkdir()
    for number in (1, 2, 3):
        (tmp_path / "val" / f"ILSVRC2012_val_{number:08d}.JPEG").write_bytes(IMAGES[number])
    with pytest.raises(UserError, match="has no ground truth of the validation images"):
        read(tmp_path)
    (tmp_path / "LOC_val_solution.csv").write_text(
        "ImageId,PredictionString\nILSVRC2012_val_00000003,n01000001 1 2 3 4\n"
        "ILSVRC2012_val_00000001,n02000001 1 2 3 4\nILSVRC2012_val_00000002,n01000001 1 2 3 4 n01000001 5 6 7 8\n"
    )
    assert found(read(tmp_path), "validation") == {(IMAGES[1], 1), (IMAGES[2], 0), (IMAGES[3], 0)}


def write_empty_class(top: Path) -> None:
    write_folders(top / "train")
    (top / "train" / "empty").mkdir()


def write_unknown_class(top: Path) -> None:
    write_folders(top / "train")
    write_folders(top / "val", ("a dogg",))


def write_unlabelled(top: Path) -> None:
    (top / "train.tar").write_bytes(ilsvrc.tar_of([("1.jpg", IMAGES[0])]))


def write_negative(top: Path) -> None:
    (top / "train.tar").write_bytes(ilsvrc.tar_of([("1.jpg", IMAGES[0]), ("1.cls", b"-1")]))


def write_mixed(top: Path) -> None:
    members = [("1.jpg", IMAGES[0]), ("1.cls", b"7"), ("2.jpg", IMAGES[0]), ("2.cls", b"cat")]
    (top / "train.tar").write_bytes(ilsvrc.tar_of(members))


def write_labels(top: Path, *labels: bytes) -> None:
    members = [
        member
        for number, label in enumerate(labels)
        for member in ((f"{number}.jpg", IMAGES[0]), (f"{number}.cls", label))
    ]
    (top / "train.tar").write_bytes(ilsvrc.tar_of(members))


def write_json(top: Path, label: object) -> None:
    members = [("0.jpg", IMAGES[0]), ("0.json", json.dumps({"label": label}).encode())]
    (top / "train.tar").write_bytes(ilsvrc.tar_of(members))


def write_nameless(top: Path) -> None:
    (top / "part-0.tar").write_bytes(ilsvrc.tar_of([("1.jpg", IMAGES[0]), ("1.cls", b"1")]))


def write_half(top: Path) -> None:
    ilsvrc.write_train(top)


def write_foreign_truth(top: Path) -> None:
    ilsvrc.write_train(top)
    ilsvrc.write_validation(top)
    (top / "LOC_val_solution.csv").write_text("n99999999\n" * 50)


def write_two_trains(top: Path) -> None:
    write_folders(top / "Train")
    write_folders(top / "training")


def write_folders_of_classes(top: Path) -> None:
    for kind in ("pets", "plants"):
        write_folders(top / kind)


@pytest.mark.parametrize(
    ("write", "line"),
    [
        (lambda _: None, "holds nothing to prepare; FROM is a folder with ILSVRC2012_img_train.tar"),
        (write_empty_class, "train/empty has no image in it"),
        (write_unknown_class, "val/a dogg: there is no such class to train on, did you mean a dog?"),
        (write_unlabelled, "1.jpg has no label; 1.cls, or `label` in 1.json, would be one"),
        (write_negative, "'-1' is no label: all are numbers from 0"),
        (write_mixed, "'7' beside 'cat' is no label: all are numbers from 0, or all are names"),
        (lambda top: write_labels(top, b"9" * 5000), "the label of 0.jpg has 5,000 characters; 200 are the most"),
        (
            lambda top: write_labels(top, bytes(2**24 + 1)),
            "0.cls should hold a label and has 16,777,217 bytes; 16,777,216 are the most",
        ),
        (
            lambda top: write_labels(top, b"0", b"19"),
            "of the labels 0 to 19 only 2 have an image to train on, not 1, 2",
        ),
        (
            lambda top: write_json(top, None),
            "`label` of 0.json is null; a whole number from 0 or a name would be right",
        ),
        (lambda top: write_json(top, 1.0), "`label` of 0.json is 1.0; a whole number"),
        (lambda top: write_json(top, True), "`label` of 0.json is true; a whole number"),
        (write_nameless, "says `train` or `val` in its name or its folder's; this one says neither"),
        (write_half, "ILSVRC2012_img_val.tar: no such file, though the other of ImageNet's two tars is there"),
        (write_two_trains, "has Train/ and training/, both train; one of them must go"),
        (lambda top: write_folders(top / "val"), "has val/ and no train/ beside it"),
        (lambda top: write_folders(top, ("TEST", "cat")), "has TEST/ and no train/ beside it"),
        (write_folders_of_classes, "pets has no images but folders of them, as Ant/ and a dog/; name the folder"),
        (lambda top: (top / "train-0.tgz").write_bytes(b"x"), "holds compressed tars, as train-0.tgz.*gunzip"),
        (write_foreign_truth, "of class n99999999, which has no training images"),
    ],
)
def test_a_source_that_cannot_be_prepared_says_why(tmp_path: Path, write, line: str) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path)
    with pytest.raises(UserError, match=line):
        read(tmp_path)


@pytest.mark.parametrize(("train", "validation"), [("Train", "Val"), ("TRAINING", "valid"), ("train", "Validation")])
def test_splits_are_known_by_their_usual_names_in_any_case(tmp_path: Path, train: str, validation: str) -> None:
    write_folders(tmp_path / train)
    write_folders(tmp_path / validation)
    source = read(tmp_path)
    assert source.classes == ["Ant", "a dog", "b cat"]
    assert [len(source.images[split]) for split in ("train", "validation")] == [9, 9]


def told(source: Source) -> dict[str, str]:
    """Why each name that is no class's is passed over."""
    return {oddity.name: oddity.detail for oddity in source.oddities if oddity.detail}


def test_images_that_lie_beside_those_that_are_taken_are_told(tmp_path: Path) -> None:
    write_folders(tmp_path / "train")
    write_folders(tmp_path / "testing", ("Ant",))
    for name in ("stray.jpg", "train/loose.jpg"):
        (tmp_path / name).write_bytes(IMAGES[0])
    (tmp_path / "papers").mkdir()
    (tmp_path / "LOC_val_solution.csv").write_text("-")
    source = read(tmp_path)
    assert told(source) == {
        "testing": "a folder with 3 images, of no split that is used",
        "stray.jpg": "in no class folder",
        "train/loose.jpg": "in no class folder",
    }
    assert set(source.images) == {"train"}


def test_class_folders_beside_tars_are_told(tmp_path: Path) -> None:
    members = [("1.png", IMAGES[0]), ("1.cls", b"0"), ("2.jpg", IMAGES[1]), ("2.cls", b"1")]
    (tmp_path / "train.tar").write_bytes(ilsvrc.tar_of(members))
    write_folders(tmp_path / "train")
    assert told(read(tmp_path)) == {"train": "a folder with 9 images, beside tars"}


def test_links_to_folders_are_followed_once_and_never_upwards(tmp_path: Path) -> None:
    write_folders(tmp_path / "elsewhere", ("x",))
    top = write_folders(tmp_path / "from", ("Ant", "dog"))
    (top / "Ant" / "linked").symlink_to(tmp_path / "elsewhere" / "x")
    (tmp_path / "elsewhere" / "x" / "back").symlink_to(top / "Ant")
    (top / "dog" / "up").symlink_to("..")
    source = read(top)
    assert {image.name for image in source.images["train"]} == {
        f"{folder}/{name}" for folder in ("Ant", "Ant/linked", "dog") for name in ("1.jpg", "2.v2.JPEG", "more/1.png")
    }
    why = "a link to a folder above it, or to one that was seen already"
    assert told(source) == {"Ant/linked/back": why, "dog/up": why}


def test_a_pipe_with_an_images_name_is_passed_over(tmp_path: Path) -> None:
    write_folders(tmp_path)
    os.mkfifo(tmp_path / "Ant" / "pipe.jpg")
    source = read(tmp_path)
    assert told(source) == {"Ant/pipe.jpg": "a pipe, socket or device"}
    assert len(source.images["train"]) == 9


@pytest.mark.parametrize("write", [write_folders, lambda top: shutil.copy(top.parent / "0" / "train.tar", top)])
def test_a_ground_truth_that_has_no_use_is_refused(tmp_path: Path, write) -> None:  # type: ignore[no-untyped-def]
    for name in ("0", "from"):
        (tmp_path / name).mkdir()
    (tmp_path / "0" / "train.tar").write_bytes(ilsvrc.tar_of([("1.jpg", IMAGES[0]), ("1.cls", b"0")]))
    write(tmp_path / "from")
    with ThreadPoolExecutor(1) as pool, pytest.raises(UserError, match=r"prepare\.ground_truth=x: "):
        read_source([tmp_path / "from"], Options(ground_truth="x"), pool)


def test_labels_that_leave_some_out_are_told(tmp_path: Path) -> None:
    write_labels(tmp_path, b"0", b"1", b"4", b"5", b"9")
    source = read(tmp_path)
    assert source.classes == [str(number) for number in range(10)]
    assert source.remarks == ["of the labels 0 to 9 only 5 have an image to train on, not 2, 3, 6, 7, 8"]
