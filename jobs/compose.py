"""Compose conf/ with Hydra into a checked `Config`, and turn Hydra's errors into one line with the nearest valid key.

In: override words of Hydra's grammar (`exp=exp5`, `optim.lr=2.0`). Out: a `Config`. Raises UserError.
Torch-free.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from pipeline.config import Config, check
from pipeline.config.schema import keys
from pipeline.errors import UserError, nearest

REFUSALS = (HydraException, OmegaConfBaseException, YAMLError, ValueError)
"""What Hydra, OmegaConf and YAML raise for a configuration that they do not take."""

FREE = ("site.environment.",)
"""Below these, keys are the user's own."""

MISSING_BY_MAKE = {"site.account": "GROUP=", "data.path": "DATA=", "container.image": "IMAGE="}
"""What only the user knows, and how make is told."""

REPOSITORY = Path(__file__).resolve().parent.parent
CONF = REPOSITORY / "conf"


def register() -> None:
    """Make pipeline.config's dataclasses the `schema` that conf/config.yaml starts from.

    An empty `user` stands in where there is no conf/user.yaml: an optional entry of a defaults list must be a group.
    """
    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    store.repo.pop("user.yaml", None)
    if not (CONF / "user.yaml").exists():
        store.store(name="user", node={})


def compose(overrides: Sequence[str], *, stand_ins: Mapping[str, str] | None = None) -> Config:
    """Compose conf/ with `overrides` and check it.

    stand_ins: what to take for keys that nobody gave a value, where a run is only looked at.
    """
    check_words(overrides)
    register()
    try:
        if GlobalHydra.instance().is_initialized():
            tree = hydra.compose("config", list(overrides))
        else:
            with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
                tree = hydra.compose("config", list(overrides))
        for key in missing(tree):
            if stand_ins and key in stand_ins:
                OmegaConf.update(tree, key, stand_ins[key])
        return to_config(tree)
    except REFUSALS as error:
        raise UserError(explain(error, overrides)) from None


def missing(tree: DictConfig) -> list[str]:
    """Keys that nobody gave a value."""
    return sorted(str(key) for key in OmegaConf.missing_keys(tree) if not str(key).startswith("hydra."))


def check_words(overrides: Sequence[str]) -> None:
    """Raise UserError for an override that OmegaConf would stumble over: a key below a group that may be null."""
    for word in overrides:
        if word.lstrip("+~").startswith("site.network.rack") and not word.endswith("=null"):
            raise UserError(f"{word}: a rack is given whole, in a site's file (conf/site/), not in ARGS")


def to_config(tree: DictConfig) -> Config:
    """The dataclass of a composed tree, resolved and checked."""
    known = set(keys())
    found = {key for key in _dotted(OmegaConf.to_container(tree)) if not key.startswith(FREE)}
    unknown = sorted(found - known)
    if unknown:
        raise UserError(unknown_key(unknown[0]))
    absent = missing(tree)
    if absent:
        how = "".join(f"{word}… or " for key, word in MISSING_BY_MAKE.items() if key == absent[0])
        raise UserError(f"{absent[0]} has no value; give it by {how}{absent[0]}=… in ARGS, or in conf/user.yaml")
    try:
        config = cast(Config, OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), tree)))
    except OmegaConfBaseException as error:
        raise UserError(explain(error)) from None
    check(config)
    return config


def explain(error: Exception, overrides: Sequence[str] = ()) -> str:
    """One line for a person: what Hydra or OmegaConf refused, and the nearest valid key or choice."""
    text = str(error)
    if isinstance(error, ValueError) and "Config group override" in text:
        return _explain_group_number(overrides)
    if isinstance(error, MissingConfigException):
        return _explain_missing(error)
    if isinstance(error, YAMLError):
        return f"conf/ is not valid YAML: {' '.join(text.split())}"
    if text.startswith("Ambiguous value"):
        return f"{text.splitlines()[0]}: a list makes several runs, which is `make sweep EXP=…`"
    if isinstance(error, OverrideParseException):
        return f"{error.override}: {text.splitlines()[0]}; overrides look like optim.lr=2.0"
    cause = str(error.__cause__ or "")
    unknown = re.search(r"Could not override '([^']+)'", text) or re.search(r"full_key: (\S+)", text)
    if unknown and unknown[1] not in keys() and "not in" in f"{text} {cause}":
        return unknown_key(unknown[1])
    key = re.search(r"full_key: (\S+)", f"{cause} {text}")
    first = (cause or text).splitlines()[0].rstrip(".")
    return f"{key[1]}: {first}" if key else first


def unknown_key(key: str) -> str:
    """The line for a key that the schema does not have."""
    valid = keys()
    guesses = nearest(key, valid, count=3) or [one for one in valid if one.split(".")[-1] == key.split(".")[-1]]
    hint = f"did you mean {guesses[0]}?" if guesses else "the keys are those of conf/config.yaml and its groups"
    return f"unknown key {key}; {hint}"


def _dotted(tree: object, prefix: str = "") -> list[str]:
    """Every dotted key of a plain tree of dicts."""
    found: list[str] = []
    for key, value in tree.items() if isinstance(tree, dict) else ():
        found += [f"{prefix}{key}", *_dotted(value, f"{prefix}{key}.")]
    return found


def _explain_missing(error: MissingConfigException) -> str:
    """The line for a choice that its group does not have: exp=5, exp=exp7, allreduce=toros."""
    group, _, choice = (error.missing_cfg_file or "").rpartition("/")
    folder = CONF / group
    if not group or not folder.is_dir():
        return str(error).splitlines()[0]
    valid = sorted(path.stem for path in folder.glob("*.yaml") if not path.stem.startswith("_"))
    guess = nearest(choice, valid)
    hint = f"did you mean {guess[0]}? " if guess else ""
    return f"{group}={choice}: no such choice; {hint}there are {', '.join(valid)}"


def _explain_group_number(overrides: Sequence[str]) -> str:
    """The line for exp=5: Hydra takes a number for no group's choice."""
    for word in overrides:
        group, _, choice = word.partition("=")
        folder = CONF / group
        if folder.is_dir():
            valid = sorted(path.stem for path in folder.glob("*.yaml") if not path.stem.startswith("_"))
            if choice not in valid:
                hint = f"did you mean {group}{choice}? " if f"{group}{choice}" in valid else ""
                return f"{word}: no such choice; {hint}there are {', '.join(valid)}"
    return f"a group's choice must be a name: {' '.join(overrides)}"
