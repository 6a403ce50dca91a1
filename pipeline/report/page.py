"""The report as one HTML page that needs nothing else: styles and pictures are in it, scripts there are none.

Jinja2 fills page.html.jinja with autoescape: what a run folder holds is shown and never read as markup. Torch-free.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipeline.report.table import Kind, Table

KINDS: dict[Kind, str] = {
    "published": "printed in a paper",
    "recipe": "of conf/exp/, what a run here is asked to do",
    "measured": "whole runs at full size",
    "estimated": "what the closed-form model says, from full overlap to none",
    "scale model": "runs where one worker stands for hundreds of GPUs, on small images",
}
"""What the groups of columns hold."""


@dataclass(frozen=True)
class Picture:
    svg: bytes
    words: str
    """What it shows, for whom it cannot be seen."""


@dataclass(frozen=True)
class Figure:
    """Pictures under one heading."""

    key: str
    title: str
    note: str
    pictures: Sequence[Picture]


def page(title: str, lines: Sequence[str], tables: Sequence[Table], figures: Sequence[Figure]) -> str:
    """The whole page. lines: what is said first."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = shown
    drawn = [
        (figure, [(inline(one.svg, f"{figure.key}-{number}"), one.words) for number, one in enumerate(figure.pictures)])
        for figure in figures
    ]
    return environment.get_template("page.html.jinja").render(
        title=title, lines=lines, tables=tables, figures=drawn, kinds=KINDS
    )


def shown(text: str) -> str:
    """`text` without what is no character of a page: a run folder's name may hold anything."""
    return "".join(one if one.isprintable() else " " for one in text)


def inline(svg: bytes, key: str) -> Markup:
    """A picture of ours as a part of the page: its names made its own by `key`; for screen readers there are words."""
    text = svg.decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{key}-\1"', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{key}-", text)
    return Markup(re.sub(r'<svg ([^>]*?)width="[^"]*"', r'<svg aria-hidden="true" focusable="false" \1', text, count=1))
