"""What an earlier report left goes with it; what is somebody else's stays."""

from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.report.place import check_free, is_report, remove_others


def test_a_folder_with_the_page_and_its_text_is_a_report(tmp_path: Path) -> None:
    (tmp_path / "report.html").touch()
    assert not is_report(tmp_path)
    (tmp_path / "report.md").touch()
    assert is_report(tmp_path)


def test_figures_that_a_new_report_does_not_have_are_removed(tmp_path: Path) -> None:
    names = ["figure-3-full-size.svg", "figure-3-scale-models.svg", "figure-3-scale-models.png", "figure-4.svg"]
    for name in names:
        (tmp_path / name).touch()
    remove_others(tmp_path, ["scaling", "figure-3-full-size"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure-3-full-size.svg", "figure-4.svg"]


@pytest.mark.parametrize("name", ["report.html", "report.md", "scaling.png"])
def test_a_folder_in_the_place_of_a_file_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(UserError, match=f"{name} is a folder, and the report writes a file there"):
        check_free(tmp_path)
