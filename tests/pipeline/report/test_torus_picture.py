"""The committed picture is what its script draws, and what it shows is the algorithm."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from pipeline.report.torus_picture import COLUMNS, ROWS, picture

SVG = "{http://www.w3.org/2000/svg}"


def test_the_committed_picture_is_what_the_script_gives(repository: Path) -> None:
    path = repository / "docs" / "pictures" / "torus.svg"
    assert path.read_text() == picture(), "run `make pictures` and commit what it gives"
    assert path.stat().st_size < 100_000


def test_its_numbers_are_what_the_three_steps_leave() -> None:
    workers = np.ones((ROWS, COLUMNS, COLUMNS), dtype=int)  # (row, column, chunk): gradients in each worker's chunk
    scattered = workers.sum(axis=1, keepdims=True) * np.eye(COLUMNS, dtype=int)  # worker c keeps chunk c
    reduced = np.broadcast_to(scattered.sum(axis=0), scattered.shape)
    gathered = np.broadcast_to(reduced.sum(axis=1, keepdims=True), reduced.shape)
    panels = ElementTree.fromstring(picture()).findall(f"{SVG}g")
    for panel, state in zip(panels, (workers, scattered, reduced, gathered), strict=True):
        shown = [text.text for text in panel.iter(f"{SVG}text") if re.fullmatch(r"\d+", text.text or "")]
        assert shown == [str(count) for count in state.ravel() if count]
