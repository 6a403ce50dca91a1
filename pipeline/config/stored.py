"""A resolved configuration on disk: written once by the composing side, read by every rank. Torch-free."""

from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pipeline.config.recipe_checks import check_recipe
from pipeline.config.schema import Config
from pipeline.errors import UserError
from pipeline.run_folder import check_regular

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Makes plain values of YAML and nothing else; the one in C is ten times as quick."""


def save(config: Config, path: Path) -> None:
    """Write `config` as YAML to `path`."""
    path.write_text(OmegaConf.to_yaml(OmegaConf.structured(config)))


def load(path: Path) -> Config:
    """Read what `save` wrote. Raises UserError where the file is absent, does not fit the schema, or makes no plan."""
    try:
        tree = OmegaConf.merge(_schema(), read_yaml(path))
        config = cast(Config, OmegaConf.to_object(tree))
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"{path} does not fit this version: {str(error).splitlines()[0]}") from None
    try:
        check_recipe(config)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return config


@cache
def _schema() -> DictConfig:
    """The schema as a tree, for merges alone, which leave it as it is: a list of runs loads thousands of files."""
    return OmegaConf.structured(Config)


def read_yaml(path: Path, *, aliases: bool = False) -> Any:
    """The YAML of a run folder's file. Raises UserError where it is absent or none.

    aliases: whether parts may stand for others (*name), as a person's file may have them. None of a run has: nine that
    stand for nine of nine of … are more than a memory holds.
    """
    check_regular(path)
    try:
        text = path.read_text()
        if not aliases and "*" in text and any(isinstance(one, yaml.AliasEvent) for one in yaml.parse(text, LOADER)):
            raise UserError(f"{path} is damaged: a part of it stands for another (*name), as in no file of a run")
        tree = yaml.load(text, LOADER)  # noqa: S506 - a safe one
    except FileNotFoundError:
        raise UserError(f"{path}: no such file, so its folder is not a run folder") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict | list):
        raise UserError(f"{path} is damaged: neither keys nor a list are in it")
    return tree
