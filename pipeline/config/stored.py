"""A resolved configuration on disk: written once by the composing side, read by every rank. Torch-free."""

from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from pipeline.config.schema import Config
from pipeline.errors import UserError


def save(config: Config, path: Path) -> None:
    """Write `config` as YAML to `path`."""
    path.write_text(OmegaConf.to_yaml(OmegaConf.structured(config)))


def load(path: Path) -> Config:
    """Read what `save` wrote. Raises UserError where the file is absent or does not fit the schema."""
    try:
        tree = OmegaConf.merge(OmegaConf.structured(Config), read_yaml(path))
        return cast(Config, OmegaConf.to_object(tree))
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"{path} does not fit this version: {str(error).splitlines()[0]}") from None


def read_yaml(path: Path) -> Any:
    """The YAML of a run folder's file. Raises UserError where it is absent or none."""
    try:
        return OmegaConf.load(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file, so its folder is not a run folder") from None
    except (YAMLError, UnicodeDecodeError, OmegaConfBaseException, OSError) as error:
        raise UserError(f"{path} is damaged: {' '.join(str(error).split())}") from None
