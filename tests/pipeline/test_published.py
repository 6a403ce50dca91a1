"""What papers report, as the papers print it; and that an edit which makes no sense is told in a line."""

import shutil
from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.published import FOLDER, Published, read
from pipeline.report.marks import REBUILT, marks_in

FIGURES = (
    "percent",
    "from_workers",
    "workers",
    "batch",
    "time",
    "top1",
    "words",
    "processors",
    "interconnect",
    "library",
)


@pytest.fixture(scope="module")
def published() -> Published:
    return read()


def test_table_1_is_the_papers(published: Published) -> None:
    # Mikami et al. 2018, Table 1: seconds and percent.
    expected = {
        "he": ("256", 29 * 3600, 75.3), "goyal": ("8K", 3600, 76.3), "smith": ("8K → 16K", 1800, 76.1),
        "akiba": ("32K", 900, 74.9), "jia": ("64K", 396, 75.8), "exp2": ("34K → 68K", 224, 75.03),
    }  # fmt: skip
    found = {one.experiment: (one.batch, one.time_s, one.top1) for one in published.runs if one.table1}
    assert found == expected


def test_what_is_not_known_is_none(published: Published) -> None:
    fifth = published.run("exp5")
    assert fifth is not None
    assert (fifth.time_s, fifth.top1, fifth.words) == (None, None, "no significant loss")
    assert published.run("scaling") is None


def test_the_most_exact_efficiency_is_found_and_none_of_another_site_or_batch(published: Published) -> None:
    found = {workers: published.efficiency_of("abci", workers, 32) for workers in (1024, 1088, 2176, 4096)}
    assert {workers: one and one.percent for workers, one in found.items()} == {
        1024: None, 1088: 91.62, 2176: 70, 4096: 70,
    }  # fmt: skip
    assert published.efficiency_of("abci", 1088, 16) is None
    assert published.efficiency_of("abci3", 1088, 32) is None


def test_every_figure_has_a_mark_and_none_is_rebuilt() -> None:
    for path in FOLDER.glob("*.yaml"):
        for key, mark in marks_in(path.read_text()).items():
            if key.rpartition(".")[2] in FIGURES:
                assert mark != REBUILT, f"{path.name}: {key}"


@pytest.mark.parametrize(
    ("file", "old", "new", "line"),
    [
        (
            "experiments.yaml",
            "time: 29 h",
            "time: 29 hours",
            "experiments.yaml: he: time is '29 hours'; write a number above 0 and one of s, min, h, as 224 s",
        ),
        ("experiments.yaml", "time: 224 s", "time: 224", "exp2: time is 224; write a number above 0 and one of s"),
        ("experiments.yaml", "time: 224 s", "time: 0 s", "exp2: time is '0 s'; write a number above 0"),
        ("experiments.yaml", "time: 224 s", "time: -5 s", "exp2: time is '-5 s'; write a number above 0"),
        ("experiments.yaml", "time: 224 s", "time: nan s", "exp2: time is 'nan s'; write a number above 0"),
        ("experiments.yaml", "75.03 ", "75.03 %", "exp2: top1 is '75.03 %'; write percent as a bare number, above 0"),
        ("experiments.yaml", "75.03", ".nan", "exp2: top1 is nan; write percent"),
        (
            "experiments.yaml",
            "75.03",
            "750",
            "exp2: top1 is 750; write percent as a bare number, above 0 and at most 100",
        ),
        (
            "experiments.yaml",
            'batch: "256"',
            "batch: 256",
            "he: batch is 256; write words; a number as words stands in",
        ),
        ("experiments.yaml", "workers: 8 ", "workers: 8.5 ", "he: workers is 8.5; write a whole number from 1"),
        ("experiments.yaml", "  title: He et al.", "  titel: He et al.", "he: unknown key titel; did you mean title?"),
        ("experiments.yaml", "  title: He et al.\n", "", "experiments.yaml: he has no title"),
        ("experiments.yaml", "goyal:\n", "goyal: 3\nb:\n", "experiments.yaml: goyal is 3; write keys, as title: …"),
        ("scaling.yaml", "91.62", "91.62 %", "scaling.yaml: efficiency[0]: percent is '91.62 %'; write percent"),
        (
            "scaling.yaml",
            "from_workers: 1088",
            "from_workers: 0",
            "efficiency[0]: from_workers is 0; write a whole number",
        ),
        ("scaling.yaml", "percent: 80", "per_cent: 80", "systems[1]: unknown key per_cent; did you mean percent?"),
        ("scaling.yaml", "systems:", "system:", "scaling.yaml: unknown key system; did you mean systems?"),
        ("scaling.yaml", "efficiency:", "efficiency: [", "is damaged"),
    ],
)
def test_an_edit_that_makes_no_sense_is_one_line(tmp_path: Path, file: str, old: str, new: str, line: str) -> None:
    shutil.copytree(FOLDER, tmp_path / "published")
    path = tmp_path / "published" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        read(tmp_path / "published")
    assert line in str(caught.value)
