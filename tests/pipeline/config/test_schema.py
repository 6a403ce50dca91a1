"""The schema is documented, and conf/ marks every number of a paper."""

import ast
import re
from pathlib import Path

import pytest

from pipeline.config import schema

CONF = Path(__file__).resolve().parents[3] / "conf"


def test_every_field_has_a_docstring() -> None:
    tree = ast.parse(Path(schema.__file__).read_text())
    for configuration in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
        for field, after in zip(configuration.body, configuration.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign):
                is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                assert is_text, f"{configuration.name}.{ast.unparse(field.target)} has no docstring"


@pytest.mark.parametrize("path", sorted((CONF / "exp").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_number_of_a_paper_says_how_sure_it_is(path: Path) -> None:
    for line in path.read_text().splitlines():
        if re.search(r":\s*-?[\d.]", line.split("#")[0]):
            assert re.search(r"# .*\b(paper|log|derived|rebuilt)\b", line), f"{path.name}: {line}"


def test_keys_are_dotted_and_complete() -> None:
    assert {"seed", "optim.lr", "recipe.grid.vertical", "data.window.area", "run.stop_after_epochs"} <= set(
        schema.keys()
    )


def test_a_group_that_may_be_null_has_keys_too_and_a_list_has_none() -> None:
    keys = schema.keys()
    assert {"site.network.rack", "site.network.rack.gb_per_s", "site.network.rack.latency_us"} <= set(keys)
    assert not [key for key in keys if key.startswith("recipe.stages.")]
    assert len(keys) == len(set(keys))
