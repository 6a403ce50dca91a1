"""docs/provenance.md lists every marked figure of conf/exp/ as the file has it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parent.parent
FILES = sorted(path.relative_to(REPOSITORY) for path in (REPOSITORY / "conf" / "exp").glob("*.yaml"))


def marked(path: Path) -> Iterator[str]:
    """A row for every value of a file whose line ends in a comment that begins with a mark."""
    text = path.read_text()
    lines = text.splitlines()
    for key, node in values(yaml.compose(text)):
        comment = lines[node.start_mark.line].partition("#")[2]
        if mark := re.match(r"\s*(paper|log|derived|rebuilt)\b[:;,]?\s*(.*)", comment):
            value = text[node.start_mark.index : node.end_mark.index]
            yield f"| `{key}` | {value} | {mark[1]} | {mark[2]} |"


def values(node: yaml.Node, key: str = "") -> Iterator[tuple[str, yaml.Node]]:
    """(dotted key, value) of all that stands on a line of its own."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        for name, value in node.value:
            chosen = name.value.removeprefix("override /")  # a group's choice, in the defaults
            yield from values(value, chosen if chosen != name.value else f"{key}.{name.value}".lstrip("."))
    elif isinstance(node, yaml.SequenceNode) and not node.flow_style:
        for place, value in enumerate(node.value):
            yield from values(value, f"{key}[{place}]")
    else:
        yield key, node


def section(path: Path) -> str:
    """What provenance.md says of a file."""
    text = (REPOSITORY / "docs" / "provenance.md").read_text()
    found = re.search(rf"^### `{re.escape(str(path))}`$(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_marked_figure_of_a_recipe_is_listed_as_it_is(path: Path) -> None:
    rows = list(marked(REPOSITORY / path))
    assert rows
    listed = [line for line in section(path).splitlines() if line.startswith("| `")]
    assert listed == rows
