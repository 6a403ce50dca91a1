"""`make report`: the paper's tables and its figure from a folder of runs of every kind."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jobs import command_line, compose, report
from pipeline.published import read
from pipeline.report.material import Material
from pipeline.report.paper_tables import paper_tables
from pipeline.report.run_table import run_table
from pipeline.report.table import Cell, Table
from tests import browser
from tests.jobs.report_runs import MARKUP, add_run, every_kind


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Runs of every kind, of which one runs."""
    top = tmp_path_factory.mktemp("report") / "runs"
    top.mkdir()
    every_kind(top)
    lock = os.open(top / "running" / "attempts", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield top
    os.close(lock)


@pytest.fixture(scope="module")
def material(runs: Path) -> Material:
    return report.gather(report.folders([str(runs)], runs / "report"))


@pytest.fixture(scope="module")
def output(runs: Path, material: Material) -> Path:
    """The report's folder."""
    from pipeline.report.files import write

    write(material, runs / "report")
    return runs / "report"


def cells(table: Table, first: str) -> dict[str, list[str]]:
    """The rows that `first` names: by kind and name of each column its texts, a rebuilt one with a dagger."""
    found: dict[str, list[str]] = {}
    for row in table.rows:
        if row[0].text == first:
            for column, cell in zip(table.columns, row, strict=True):
                name = f"{column.kind} {column.name}".strip()
                found.setdefault(name, []).append(cell.text + "†" * cell.is_rebuilt)
    return found


def table(material: Material, number: int) -> Table:
    return paper_tables(material)[number - 1]


def test_table_1_has_the_published_pair_beside_runs_of_exp2_only(material: Material) -> None:
    ours = cells(table(material, 1), "This work (Exp. 2)")
    assert [ours[f"published {name}"] for name in ("batch", "library", "time", "top-1")] == [
        ["34K → 68K"], ["NNL"], ["224 s"], ["75.03 %"],
    ]  # fmt: skip
    assert [ours[f"measured {name}"] for name in ("workers", "runs", "time", "top-1")] == [
        ["2,176"], ["1"], ["230 s"], ["75.10 %"],
    ]  # fmt: skip
    assert ours["scale model top-1"] == [""]
    rows = [row[0].text for row in table(material, 1).rows]
    assert rows == ["He et al.", "Goyal et al.", "Smith et al.", "Akiba et al.", "Jia et al.", "This work (Exp. 2)"]
    he = cells(table(material, 1), "He et al.")
    assert (he["published time"], he["published top-1"], he["estimated all updates"]) == (["29 h"], ["75.30 %"], [""])


def test_marks_of_published_figures_reach_the_tables_and_go_with_the_comment(
    material: Material, tmp_path: Path
) -> None:
    assert cells(table(material, 5), "Exp. 2")["published top-1"] == ["75.03 %†"]
    assert "rebuilt" in table(material, 1).note
    for name in ("scaling.yaml", "experiments.yaml"):
        shutil.copy(compose.CONF / "published" / name, tmp_path)
    path = tmp_path / "experiments.yaml"
    text = path.read_text().replace("# rebuilt: which experiment the headline run is", "# paper")
    path.write_text(text.replace("time: 15 min           # paper", "time: 15 min           # rebuilt"))
    corrected = replace(material, published=read(tmp_path))
    assert cells(table(corrected, 5), "Exp. 2")["published top-1"] == ["75.03 %"]
    assert "rebuilt" not in table(corrected, 1).note
    assert cells(table(corrected, 1), "Akiba et al.")["published time"] == ["15 min†"]


def test_table_2_has_the_papers_efficiencies_and_the_estimate_of_this_work(material: Material) -> None:
    akiba, ours = (cells(table(material, 2), name) for name in ("Akiba et al.", "This work"))
    assert (akiba["published efficiency"], akiba["estimated efficiency"]) == (["80 %"], [""])
    assert ours["published efficiency"] == ["91.62 %"]
    assert ours["estimated efficiency"][0].endswith(" %")
    assert ours["measured efficiency"] == [""]


def test_table_3_marks_rebuilt_cells_and_those_of_the_paper_not(material: Material) -> None:
    second = cells(table(material, 3), "Exp. 5")
    assert second["recipe a worker"] == ["16†", "32†", "56"]
    assert second["recipe total batch"] == ["34,816†", "69,632†", "121,856"]
    assert second["recipe updates an epoch"] == ["37†", "19†", "11"]
    assert second["recipe momentum"] == ["0.900†", "0.950†", "0.971†"]
    assert second["recipe epochs"] == ["0 to 30†", "30 to 60†", "60 to 90†"]
    assert cells(table(material, 3), "Exp. 3")["recipe a worker"] == ["16†", "32†"]
    assert cells(table(material, 3), "Exp. 3")["recipe total batch"] == ["43,520†", "87,040†"]


def test_table_3_has_what_runs_lived_in_columns_of_their_own(material: Material) -> None:
    fifth = cells(table(material, 3), "Exp. 5")
    assert fifth["measured total batch"] == ["34,816", "69,632", "121,856"]
    assert fifth["scale model total batch"] == ["64", "128", "224"]  # 4 workers of 16, 32, 56
    assert fifth["scale model updates"] == ["1,110", "570", "330"]
    assert cells(table(material, 3), "Exp. 6")["scale model updates"] == ["", "", ""]  # it still runs


def test_table_4_has_rebuilt_grids_and_never_as_the_papers(material: Material) -> None:
    third, second = (cells(table(material, 4), name) for name in ("Exp. 3", "Exp. 2"))
    assert [third[f"recipe {name}"] for name in ("GPUs", "vertical", "horizontal")] == [["2,720†"], ["34†"], ["80†"]]
    assert third["published GPUs"] == [""]
    assert [second[f"recipe {name}"] for name in ("GPUs", "vertical", "horizontal")] == [["2,176"], ["34†"], ["64†"]]
    assert second["published GPUs"] == ["2,176†"]  # of the headline run: that it is Exp. 2 is rebuilt
    assert second["measured grid"] == ["34x64"]
    assert cells(table(material, 4), "Exp. 5")["scale model grid"] == ["2x2"]


def test_table_5_never_mixes_full_size_and_scale_models_and_is_empty_where_nothing_was_run(material: Material) -> None:
    rows = {name: cells(table(material, 5), name) for name in ("Reference", "Exp. 5", "Exp. 6", "Exp. 3", "Exp. 4")}
    assert (rows["Reference"]["scale model runs"], rows["Reference"]["scale model top-1"]) == (["2"], ["96.50 %"])
    assert rows["Reference"]["measured top-1"] == [""]
    fifth = rows["Exp. 5"]
    assert (fifth["measured workers"], fifth["measured top-1"], fifth["scale model top-1"]) == (
        ["128"], ["74.90 %"], ["96.25 %"],
    )  # fmt: skip
    assert fifth["published top-1"] == ["no significant loss"]
    for name in ("Exp. 6", "Exp. 3", "Exp. 4"):  # running; of another LR; stopped early or damaged
        assert rows[name]["scale model top-1"] == [""], name
    assert all(rows[name]["estimated all updates"] != [""] for name in rows)


def test_table_6_has_scaling_by_kind(material: Material) -> None:
    of = table(material, 6)
    names = [f"{column.kind} {column.name}".strip() for column in of.columns]
    rows = [dict(zip(names, (cell.text for cell in row), strict=True)) for row in of.rows]
    here = [row for row in rows if row["site"] == "local"]
    assert [(row["recipe workers"], row["scale model images/s"], row["scale model efficiency"]) for row in here] == [
        ("1", "1,000", "100.00 %"), ("2", "1,600", "80.00 %"),
    ]  # fmt: skip
    assert {row["measured images/s"] for row in rows} == {""}
    published = {row["recipe workers"]: row["published efficiency"] for row in rows if row["published efficiency"]}
    assert published == {"1,088": "91.62 %", "above 2,176": "about 70 % above 2176 GPUs", "3,456": "84.75 %"}
    assert all(row["estimated efficiency"] for row in rows if row["recipe workers"] in ("1,088", "3,456"))


VERDICTS = {
    "sony": ("done", "reproduced", "top-1 0.07 points above 75.03 %, 1.03 times 224 s"),
    "small": ("done", "fewer workers than the paper (same updates)", "128 of 2,176, 2,010 updates"),
    "model": ("done", "scale model", "one worker stands for 544 GPUs"),
    "running": ("running", "not comparable", "no result, running"),
    "failed": ("failed", "not comparable", "data.path /x: no such folder"),
    "other-lr": ("done", "not comparable", "optim.lr is 2.0 here and 3.1 in conf/"),
    "short": ("done", "not comparable", "stopped after 100 of 1,530 updates"),
    MARKUP: ("done", "not comparable", "conf/exp/ has no recipe <img"),
}


def test_every_run_has_its_state_and_verdict_with_the_reason(material: Material) -> None:
    rows = {Path(row[0].text).name: [cell.text for cell in row] for row in run_table(material).rows}
    for name, (state, word, reason) in VERDICTS.items():
        assert rows[name][2:4] == [state, word], name
        assert reason in rows[name][4], name


def test_what_is_no_run_or_damaged_is_told_in_a_line_each(
    runs: Path, material: Material, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {Path(folder).name: why for folder, why in material.left_out}
    assert set(told) == {"notes", "no-yaml", "half", "not-a-number", "lacking", "endless"}
    assert "result.json is damaged" in told["half"]
    assert "top1 is nan" in told["not-a-number"]
    assert set(told).isdisjoint(Path(record.folder).name for record in material.records)
    assert "not a run folder" in told["notes"]
    assert "config.yaml is damaged" in told["no-yaml"]
    monkeypatch.setattr(report, "gather", lambda _: material)
    assert command_line.run(report.main, [str(runs), f"report.dir={runs / 'report'}"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len([line for line in said if line.startswith("left out: ")]) == 6
    assert str(runs / "report" / "report.html") in said


def test_the_files_are_the_same_bytes_again_and_pictures_are_whole(
    output: Path, material: Material, tmp_path: Path
) -> None:
    from pipeline.report.files import write

    assert len(write(material, tmp_path)) == 8  # the page, Markdown, two figures and the scaling plot as SVG and PNG
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (output / path.name).read_bytes(), path.name
    for path in output.glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    words = " ".join(ElementTree.parse(output / "figure-3-scale-models.svg").getroot().itertext())
    for part in ("Exp. 5", "Reference", "reference, training", "Exp. 5, validation", "error, %", "epoch"):
        assert part in words, part


def test_a_figure_of_an_earlier_report_goes_where_the_new_one_has_none(material: Material, tmp_path: Path) -> None:
    from pipeline.report.files import write

    for name in ("report.html", "report.md", "figure-3-scale-models.svg", "figure-3-scale-models.png"):
        (tmp_path / name).touch()
    write(replace(material, records=(), curves={}), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "report.md", "scaling.svg", "scaling.png"}


def test_a_report_of_ours_is_passed_over_wherever_the_new_one_goes(tmp_path: Path) -> None:
    add_run(tmp_path / "run", ["exp=exp5"])
    for folder in ("report", "notes"):
        (tmp_path / folder).mkdir()
    for name in ("report.html", "report.md"):
        (tmp_path / "report" / name).touch()
    found = report.folders([str(tmp_path)], tmp_path / "elsewhere")
    assert [folder.path.name for folder in found] == ["notes", "run"]


def test_a_folder_that_no_report_may_be_written_into_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = add_run(tmp_path / "run", ["exp=exp5"])
    for output, line in {
        "": "report.dir is empty",
        "~/zz": "report.dir=~/zz: ~ is a home folder for a shell only",
        str(folder.path): "lies in the run folder",
        str(folder.log / "report"): "lies in the run folder",
    }.items():
        assert command_line.run(report.main, [str(tmp_path), f"report.dir={output}"]) == 1
        assert line in capsys.readouterr().err
    assert not (folder.log / "report").exists()


def test_markdown_shows_a_hostile_name_as_text(output: Path) -> None:
    text = (output / "report.md").read_text()
    assert "<img" not in text
    (row,) = [line for line in text.splitlines() if "onerror" in line]
    assert row.replace("\\|", "").count("|") == 9  # eight columns
    assert "2,720†" in text


def test_a_changed_cell_of_one_file_changes_every_table_and_a_corrected_mark_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(compose.CONF, conf, ignore=shutil.ignore_patterns("user.yaml"))
    path = conf / "exp" / "exp3.yaml"
    text = path.read_text()
    edits = {
        "workers: 2720   # rebuilt": "workers: 2048   # paper",
        "vertical: 34, horizontal: 80}   # rebuilt": "vertical: 32, horizontal: 64}   # paper",
        "start_epoch: 30, per_worker_batch: 32}   # rebuilt": "start_epoch: 45, per_worker_batch: 40}   # paper",
    }
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    monkeypatch.setattr(compose, "CONF", conf)
    changed = report.gather([], ["exp3"])
    assert cells(table(changed, 3), "Exp. 3")["recipe total batch"] == ["32,768†", "81,920"]  # 2048 x 16, x 40
    assert cells(table(changed, 3), "Exp. 3")["recipe epochs"] == ["0 to 45", "45 to 90"]
    fourth = cells(table(changed, 4), "Exp. 3")
    assert [fourth[f"recipe {name}"] for name in ("GPUs", "vertical", "horizontal")] == [["2,048"], ["32"], ["64"]]
    assert cells(table(changed, 5), "Exp. 3")["recipe GPUs"] == ["2,048"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["runs/nowhere"], "runs/nowhere: no such run folder"),
        (["optim.lr=2.0"], "optim.lr=2.0: make report takes run folders by RUNS="),
        ([], "there is no runs/ yet"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line.run(report.main, words) == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(f"error: {line}")


IN_THE_PAGE = """
[...document.querySelectorAll('section:has(table)')].map(section => ({
  key: section.querySelector('h2').id,
  caption: section.querySelector('caption').textContent.trim(),
  heads: [...section.querySelectorAll('thead tr:last-child th')].map(
    head => head.scope + ' ' + head.textContent.trim()),
  rows: [...section.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.textContent.trim())),
  scopes: [...new Set([...section.querySelectorAll('tbody th')].map(head => head.scope))],
}))
"""


def in_the_page(cell: Cell) -> str:
    return f"{cell.text} rebuilt" if cell.is_rebuilt and cell.text else cell.text


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    if browser.program() is None:
        end = pytest.fail if os.environ.get("REQUIRE_CLUSTER") == "1" else pytest.skip
        end("no Chromium on PATH: install Debian's package chromium (`apt-get install chromium`)")
    with browser.Browser() as one:
        yield one


def test_chromium_shows_the_page_without_an_error_as_the_tables_have_it(
    output: Path, material: Material, chromium: browser.Browser, pytestconfig: pytest.Config
) -> None:
    page = chromium.open(output / "report.html")
    assert page.problems == []
    found = {one["key"]: one for one in page.value(IN_THE_PAGE)}
    for expected in [*paper_tables(material), run_table(material)]:
        shown = found[expected.key]
        assert shown["caption"] == expected.note
        assert shown["heads"] == [f"col {column.name}" for column in expected.columns]
        assert shown["scopes"] == ["row"]
        assert shown["rows"] == [list(map(in_the_page, row)) for row in expected.rows]
    assert page.value("document.querySelectorAll('img, script, iframe, link, object').length") == 0
    assert page.value("document.querySelectorAll('figure svg').length") == 5
    assert page.value("document.querySelectorAll('figure[aria-label]:not([aria-label=\"\"])').length") == 5
    ids = page.value("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    assert pytestconfig.cache is not None
    screenshots = pytestconfig.cache.mkdir("screenshots")  # .pytest_cache/d/screenshots
    colours = []
    for width, dark in ((1280, False), (1280, True), (390, True)):
        page.show(width=width, height=844, dark=dark)
        colours.append(page.value("getComputedStyle(document.body).backgroundColor"))
        assert page.value("document.documentElement.scrollWidth") <= width  # only tables scroll sideways
        page.screenshot(screenshots / f"report-{width}-{'dark' if dark else 'light'}.png")
    assert colours == ["rgb(255, 255, 255)", "rgb(13, 17, 23)", "rgb(13, 17, 23)"]


def test_chromium_tells_of_a_page_that_is_not_right(tmp_path: Path, chromium: browser.Browser) -> None:
    wrong = tmp_path / "wrong.html"
    script = "<script>console.error('a' + 'bc'); nowhere();</script>"
    wrong.write_text(f"<!DOCTYPE html><title>x</title><img src=missing.png>{script}")
    told = "\n".join(chromium.open(wrong).problems)
    for part in ("console: ", "abc", "nowhere is not defined", "missing.png"):
        assert part in told, part
