"""How sure each number of an experiment's YAML file is: the marks in its comments. Torch-free.

A mark that begins a line's comment holds for all values of the line; where the line has none, one in a comment line
right above it. Of several in a comment the least sure holds. `the epoch is rebuilt` excepts the value whose key has
that word. So whoever corrects a number and its mark in one file has corrected every table.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from pipeline.config.stored import read_yaml

MARKS = ("rebuilt", "derived", "log", "paper")
"""The least sure first."""

REBUILT = MARKS[0]
"""What has no mark is taken for rebuilt: it must not pass for the paper's."""


def marks_of(experiment: str, folder: Path) -> dict[str, str]:
    """The mark of each value of an experiment by its dotted key, as `recipe.stages.0.start_epoch`.

    folder: conf/exp/. What a file leaves to those of its defaults list has their marks.
    """
    path = folder / f"{experiment}.yaml"
    tree = read_yaml(path, aliases=True)
    names = tree.get("defaults", []) if isinstance(tree, dict) else []
    found: dict[str, str] = {}
    for name in names if isinstance(names, list) else ():
        if isinstance(name, str) and name != "_self_" and (folder / f"{name}.yaml").is_file():
            found |= marks_of(name, folder)
    return found | marks_in(path.read_text())


def marks_in(text: str) -> dict[str, str]:
    """The mark of each value of a YAML text by its dotted key."""
    lines = text.splitlines()
    values = list(_values(yaml.compose(text, yaml.SafeLoader)))
    ends: dict[int, int] = {}
    for _, node in values:
        ends[node.end_mark.line] = max(ends.get(node.end_mark.line, 0), node.end_mark.column)
    return {key: _mark(key, lines, node.start_mark.line, ends[node.end_mark.line]) for key, node in values}


def least_sure(*marks: str) -> str:
    """The mark of what follows from values of these marks by arithmetic: derived at the best."""
    return min((*marks, "derived"), key=MARKS.index)


def _values(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, node) of every scalar."""
    if isinstance(node, yaml.MappingNode):
        pairs = [(str(name.value), value) for name, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        pairs = [(str(number), value) for number, value in enumerate(node.value)]
    else:
        if node is not None:
            yield key, node
        return
    for name, value in pairs:
        yield from _values(value, f"{key}.{name}" if key else name)


def _mark(key: str, lines: list[str], line: int, end: int) -> str:
    """end: the column at which the line's last value ends."""
    comment = lines[line][end:].partition("#")[2]
    if not _first(comment) and line and lines[line - 1].lstrip().startswith("#"):
        comment = lines[line - 1].partition("#")[2]
    words = key.rpartition(".")[2].split("_")
    for word, mark in re.findall(rf"the (\w+) is ({'|'.join(MARKS)})", comment):
        if word in words:
            return str(mark)
    return _first(comment) or REBUILT


def _first(comment: str) -> str:
    """The mark of a comment that begins with one, the least sure that it names; empty where it begins with none."""
    of_others = rf"\bthe\b[^;,]*\bis ({'|'.join(MARKS)})\b"
    named = re.findall(rf"\b({'|'.join(MARKS)})\b", re.sub(of_others, "", comment))
    begins = re.match(rf"\s*({'|'.join(MARKS)})\b", comment)
    return min((begins[1], *named), key=MARKS.index) if begins else ""
