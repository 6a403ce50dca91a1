"""The order of shards is fixed, mixes classes, and is balanced in every prefix; keys are unique."""

import random
from collections import Counter
from typing import Any

import pytest

from pipeline.data.prepare.options import Options, of_words
from pipeline.data.prepare.plan import in_order, keyed, plan_shards
from pipeline.data.prepare.source import Source, StoredImage
from pipeline.errors import UserError


def image(name: str, label: int = 0, size: int = 100) -> StoredImage:
    return StoredImage("/x", 0, size, name, label, 0)


def images(classes: int, each: int) -> list[StoredImage]:
    return [image(f"c{label:04d}/c{label:04d}_{n}.jpg", label) for label in range(classes) for n in range(each)]


def test_classes_of_one_size_differ_by_at_most_one_in_every_prefix() -> None:
    counts = Counter(dict.fromkeys(range(20), 0))
    for _, one in in_order("train", images(20, 30)):
        counts[one.label] += 1
        assert max(counts.values()) - min(counts.values()) <= 1


def test_the_order_does_not_follow_that_of_the_source() -> None:
    given = images(7, 13)
    expected = in_order("train", given)
    random.Random(1).shuffle(given)
    assert in_order("train", given) == expected
    assert [key for key, _ in expected] != [key for key, _ in in_order("validation", given)]
    rounds = [tuple(one.label for _, one in expected[7 * n : 7 * n + 7]) for n in range(13)]
    assert len(set(rounds)) > 10  # the order of classes is drawn anew in each


def test_keys_are_the_files_names_where_these_are_unique() -> None:
    given = [
        image("train.tar/n01/n01_7.JPEG"),
        image("val/x/a b.c.png"),
        image("val/y/a-b-c.jpg"),
        image("z/" + "ü" * 99),
    ]
    assert [key for key, _ in keyed(given)] == ["n01_7", "x-a-b-c", "y-a-b-c", "-" * 80]


def test_keys_have_the_class_where_folders_nest_alike_and_take_no_longer_for_it() -> None:
    given = [image(f"train/c{label}/images/{n}.jpg") for label in range(30_000) for n in (1, 2)]
    assert {key for key, _ in keyed(given)} == {f"c{label}-images-{n}" for label in range(30_000) for n in (1, 2)}
    alike = [image(f"{'x' * 90}/{n}/{'y' * 80}.jpg") for n in range(30_000)]  # what tells them apart is cut off
    assert {key for key, _ in keyed(alike)} == {"y" * 80, *(f"{'y' * 80}-{n}" for n in range(2, 30_001))}


def test_no_two_keys_are_alike() -> None:
    given = [image(f"{top}/c/{name}") for top in "abc" for name in ("1.jpg", "1.png", "c-1.jpg", "c-1-2.jpg")]
    keys = [key for key, _ in keyed(given)]
    assert len(set(keys)) == len(keys) == 12


def test_shards_are_cut_into_even_parts_of_at_most_the_size_asked_for_and_a_sample() -> None:
    given = [image(f"{n}.jpg", n % 3, 1000 + n) for n in range(1000)]
    shards = plan_shards(Source("", "", [], {"train": given}), Options(shard_bytes=100_000))
    sizes = [shard.source_bytes() for shard in shards]
    assert sum(sizes) == sum(512 + -(-one.size // 512) * 512 + 1024 for one in given)
    assert len(sizes) == -(-sum(sizes) // 100_000)
    assert max(sizes) - min(sizes) <= 2 * (512 + 2048 + 1024)


def test_a_shards_fingerprint_changes_with_all_that_its_bytes_follow_from() -> None:
    def print_of(one: StoredImage, **options: Any) -> str:
        (shard,) = plan_shards(Source("", "", [], {"train": [one]}), Options(**options))
        return shard.fingerprint()

    base = StoredImage("/x", 5, 100, "a.jpg", 1, 9)
    others = [
        StoredImage("/x", 6, 100, "a.jpg", 1, 9), StoredImage("/x", 5, 101, "a.jpg", 1, 9),
        StoredImage("/x", 5, 100, "b.jpg", 1, 9), StoredImage("/x", 5, 100, "a.jpg", 2, 9),
        StoredImage("/x", 5, 100, "a.jpg", 1, 8),
    ]  # fmt: skip
    prints = [print_of(base), *map(print_of, others), print_of(base, shorter_side=256)]
    assert len(set(prints)) == 7
    assert print_of(StoredImage("/moved", 5, 100, "a.jpg", 1, 9)) == prints[0]
    assert print_of(base, unreadable="leave_out") == prints[0]


def test_words_become_options() -> None:
    words = [
        "prepare.shorter_side=256",
        "prepare.unreadable=leave_out",
        "prepare.validation_share=0.1",
        "prepare.name=1e5",
    ]
    assert of_words(words) == Options(shorter_side=256, unreadable="leave_out", validation_share=0.1, name="1e5")
    assert of_words(["prepare.shorter_side=null"]) == of_words([]) == Options()


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("prepare.shorterside=256", "no such option, did you mean prepare.shorter_side?"),
        ("shorter_side=256", "no such option, did you mean prepare.shorter_side?"),
        ("prepare.shorter_side", "has no value; give prepare.shorter_side=…"),
        ("prepare.shorter_side=small", "prepare.shorter_side: Value 'small' of type 'str' could not be converted"),
        ("prepare.shorter_side=0", "at least 1 pixel"),
        ("prepare.unreadable=leave-out", "no such choice, did you mean leave_out?"),
        ("prepare.validation_share=1.5", "between 0 and 1"),
        ("prepare.shard_bytes=-1", "at least 1"),
    ],
)  # fmt: skip
def test_a_word_that_cannot_be_taken_is_told_in_one_line(word: str, line: str) -> None:
    with pytest.raises(UserError, match=line.replace("?", r"\?")) as raised:
        of_words([word])
    assert "\n" not in str(raised.value)
