"""In which keys two configurations differ. Pure; torch-free."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from pipeline.config.schema import Config


def differences(old: Config, new: Config) -> dict[str, tuple[object, object]]:
    """Dotted keys whose values differ, with both values; a list is one value, and one side may lack a key: None."""
    was, is_now = leaves(old), leaves(new)
    pairs = {key: (was.get(key), is_now.get(key)) for key in {**was, **is_now}}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def leaves(config: Config) -> dict[str, object]:
    """Every value that is no group of keys, by its dotted key."""
    return dict(_leaves(asdict(config)))


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """(dotted key, value) of every value that is no group of keys."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
