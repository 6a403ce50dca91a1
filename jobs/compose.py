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
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from pipeline.config import Config, check
from pipeline.config.manifest import read_counts
from pipeline.config.schema import keys, keys_of_lists
from pipeline.config.site_checks import check_wall_time
from pipeline.config.wall_time import AUTO
from pipeline.errors import UserError, nearest

REFUSALS = (HydraException, OmegaConfBaseException, YAMLError, ValueError)
"""What Hydra, OmegaConf and YAML raise for a configuration that they do not take."""

FREE = ("site.environment.",)
"""Below these, keys are the user's own."""

MISSING_BY_MAKE = {"site.account": "GROUP=", "data.path": "DATA=", "container.image": "IMAGE="}
"""What only the user knows, and how make is told."""

CLASSES_SHOWN = 1000
"""Of a data set that nobody named, where a run is only looked at."""

REPOSITORY = Path(__file__).resolve().parent.parent
CONF = REPOSITORY / "conf"


def register() -> None:
    """Make what conf/config.yaml's defaults name: pipeline.config's dataclasses `schema`, conf/user.yaml `of_user`.

    What only the user knows is left out of the latter: `_fill` adds it, and tells of a user.yaml that cannot be read.
    """
    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    try:
        of_user = _read_user()
    except (UserError, *REFUSALS):
        of_user = OmegaConf.create()
    for key in MISSING_BY_MAKE:
        group, _, name = key.partition(".")
        if isinstance(below := OmegaConf.select(of_user, group, throw_on_missing=False), DictConfig):
            below.pop(name, None)
    store.store(name="of_user", node=of_user)


def _read_user() -> DictConfig:
    """What conf/user.yaml holds; nothing where there is none."""
    path = CONF / "user.yaml"
    if not path.exists():
        return OmegaConf.create()
    try:
        found = OmegaConf.load(path)
    except OSError as error:  # OmegaConf's, too, for a file that is one word
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    if not isinstance(found, DictConfig):
        raise UserError(f"{path} holds no keys; it looks like conf/config.yaml: data: {{path: /groups/…}}")
    return found


def _fill(tree: DictConfig, words: Sequence[str]) -> None:
    """Give what only the user knows the value of conf/user.yaml, where neither conf/ nor `words` has one.

    So the sample keeps its own data.path, and a run without an image gets none. At a cluster's site an account that is
    null is none: GROUP= may be needed there, or not. What is left to the data is read off them.
    """
    of_user = _read_user()
    given = {word.partition("=")[0].lstrip("+~") for word in words}
    at_cluster = OmegaConf.select(tree, "site.scheduler") != "local"
    for key in MISSING_BY_MAKE:
        value = OmegaConf.select(of_user, key)
        group, _, name = key.partition(".")
        absent = OmegaConf.is_missing(tree[group], name)
        if key == "site.account" and at_cluster:
            absent = absent or tree.site.account is None
        if value is not None and absent and key not in given:
            OmegaConf.update(tree, key, value)
    _count(tree)


def _count(tree: DictConfig) -> None:
    """Give what data= leaves to the data the value that their manifest.json has."""
    data = tree.data
    samples_too = data.all_samples and data.train_samples is None
    if OmegaConf.is_missing(data, "path"):  # refused later on, or only looked at
        data.classes = CLASSES_SHOWN if data.classes is None else data.classes
        return
    if data.classes is not None and not samples_too:
        return
    counts = read_counts(REPOSITORY / data.path)
    data.classes = counts.classes if data.classes is None else data.classes
    data.train_samples = counts.train_samples if samples_too else data.train_samples


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
        _fill(tree, overrides)
        for key in missing(tree):
            if stand_ins and key in stand_ins:
                OmegaConf.update(tree, key, stand_ins[key])
        return to_config(tree, overrides)
    except REFUSALS as error:
        raise UserError(explain(error, overrides)) from None


def missing(tree: DictConfig) -> list[str]:
    """Keys that nobody gave a value."""
    return sorted(str(key) for key in OmegaConf.missing_keys(tree) if not str(key).startswith("hydra."))


def check_words(overrides: Sequence[str]) -> None:
    """Raise UserError for an override that Hydra or OmegaConf would stumble over, or take for something else.

    A key below a group that may be null; a word where a list's entry has a number; a choice that is no name of a file
    in its group's folder.
    """
    for word in overrides:
        if word.lstrip("+~").startswith("site.network.rack") and not word.endswith("=null"):
            raise UserError(f"{word}: a rack is given whole, in a site's file (conf/site/), not in ARGS")
        for key in keys_of_lists():
            rest = word.lstrip("+~").partition("=")[0].removeprefix(f"{key}.")
            if word.lstrip("+~").startswith(f"{key}.") and not rest.partition(".")[0].isdecimal():
                raise UserError(f"{word}: {key} is a list, whose entries are {key}.0, {key}.1 and so on")
        group, _, choices = word.lstrip("+").partition("=")
        if not re.fullmatch(r"\w+", group) or not (CONF / group).is_dir() or re.search(r"[(\[$]", choices):
            continue
        for choice in (one.strip().strip("'\"") for one in choices.split(",")):
            if choice.startswith("_") or not re.fullmatch(r"[\w.-]*", choice):
                raise UserError(_no_such_choice(group, choice))


def to_config(tree: DictConfig, words: Sequence[str] | None = None) -> Config:
    """The dataclass of a composed tree, resolved and checked.

    words: the overrides it comes from. Without them it is the tree of Hydra's application, which _fill has not seen.
    """
    if words is None:
        words = list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else []
        _fill(tree, words)
    known = set(keys())
    found = {key for key in _dotted(OmegaConf.to_container(tree)) if not key.startswith(FREE)}
    unknown = sorted(found - known)
    if unknown:
        raise UserError(unknown_key(unknown[0]))
    if absent := missing(tree):
        raise UserError(_no_value(absent, words))
    try:
        config = cast(Config, OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), tree)))
    except OmegaConfBaseException as error:
        raise UserError(explain(error)) from None
    _check(config, words)
    if config.site.wall_time == AUTO:
        from pipeline.estimate.fitted_wall_time import set_wall_time  # here: most commands need no model

        set_wall_time(config)
        check_wall_time(config.site)
    return config


def _check(config: Config, words: Sequence[str]) -> None:
    """Check, and name the file of a recipe that nobody changed by a word."""
    try:
        check(config)
    except UserError as error:
        chosen = [word.partition("=")[2] for word in words if word.lstrip("+").startswith("exp=")]
        of_file = str(error).startswith("recipe.") and not any(word.lstrip("+~").startswith("recipe") for word in words)
        if chosen and of_file:
            raise UserError(f"conf/exp/{chosen[-1]}.yaml: {error}") from None
        raise


def _no_value(absent: Sequence[str], words: Sequence[str]) -> str:
    """The line for keys that nobody gave a value: all of them, and where each can be given."""
    of_make = [key for key in MISSING_BY_MAKE if key in absent]
    others = [key for key in absent if key not in of_make]
    sites = [word.partition("=")[2] for word in words if word.startswith("site=")]
    file = f"conf/site/{sites[-1] if sites else 'local'}.yaml, in "
    in_site = file if any(key.startswith("site.") for key in others) else ""
    if len(absent) == 1 and of_make:
        key = absent[0]
        return f"{key} has no value; give it by {MISSING_BY_MAKE[key]}… or {key}=… in ARGS, or in conf/user.yaml"
    variables = " ".join(f"{MISSING_BY_MAKE[key]}…" for key in of_make)
    by_make = f"give {variables}, or set {'them' if len(of_make) > 1 else 'it'} in conf/user.yaml"
    by_file = f"in {in_site}ARGS or in conf/user.yaml"
    *first, last = [*of_make, *others]
    named = f"{', '.join(first)} and {last} have" if first else f"{last} has"
    if not others:
        return f"{named} no value; {by_make}"
    if not of_make:
        return f"{named} no value; give {'them' if first else 'it'} {by_file}"
    return f"{named} no value; {by_make}; the others {by_file}"


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
        return f"{text.splitlines()[0]}: a list makes several runs, which only `make sweep EXP=…` starts"
    if isinstance(error, OverrideParseException):
        return f"{error.override}: {text.splitlines()[0]}; overrides look like optim.lr=2.0"
    cause = str(error.__cause__ or "")
    if absent := re.search(r"Missing mandatory value: ([\w.]+)", text):
        return _no_value([absent[1]], overrides)
    unknown = re.search(r"Could not override '([^']+)'", text) or re.search(r"full_key: (\S+)", text)
    if unknown and unknown[1] not in keys() and "not in" in f"{text} {cause}":
        return unknown_key(unknown[1])
    key = re.search(r"full_key: (\S+)", f"{cause} {text}")
    first, *more = (cause or text).splitlines()
    if more and (composed := re.match(r"In '([^']+)': \w+ raised while composing", first)):  # what, stands below
        file = "user" if composed[1] == "of_user" else composed[1]
        return f"conf/{file}.yaml: {f'{key[1]}: ' if key else ''}{more[0].strip().rstrip('.')}"
    first = first.rstrip(".")
    if key and (line := _of_a_whole(key[1], first)):
        return line
    return f"{key[1]}: {first}" if key else first


def _of_a_whole(key: str, refused: str) -> str:
    """The line for a part of a list that is not there, or something else in place of a group of keys; else empty."""
    among, place = re.match(r"(.*?)(?:\[(\d+)\])?$", key).groups()  # type: ignore[union-attr]
    if place and (refused.endswith("index out of range") or refused.startswith("Invalid type assigned: dict")):
        return f"{among}.{place}: {among} has no entry {place}; they count from 0, and a new list is given whole"
    found = re.match(r"Invalid type assigned: (\w+) is not a subclass of \w+\. value: (.*)", refused)
    if not found:
        return ""
    inside = [one.removeprefix(f"{among}.") for one in keys() if one.startswith(f"{among}.")]
    names = ", ".join(one for one in inside if "." not in one) or "{start_epoch: …}"
    return f"{key}={found[2]}: it is a group of keys, {names:.200}"


def unknown_key(key: str) -> str:
    """The line for a key that the schema does not have."""
    group, _, rest = key.partition(".")
    if rest.partition(".")[0] == group and (CONF / group).is_dir():
        return f"unknown key {key}; a file of conf/{group}/ with a {group}: in it begins with # @package _global_"
    valid = keys()
    if group not in valid and (CONF / group).is_dir():
        return (
            f"unknown key {key}; the file of conf/{group}/ that is chosen is empty, or does not begin with "
            "# @package _global_"
        )
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
    return _no_such_choice(group, choice)


def _no_such_choice(group: str, choice: str) -> str:
    valid = choices_of(group)
    guess = nearest(choice, valid)
    hint = f"did you mean {guess[0]}? " if guess and re.fullmatch(r"[\w.-]+", choice) else ""
    return f"{group}={choice}: no such choice; {hint}there are {', '.join(valid)}"


def choices_of(group: str) -> list[str]:
    """The names that a group's folder of conf/ offers."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml") if not path.stem.startswith("_"))


def _explain_group_number(overrides: Sequence[str]) -> str:
    """The line for exp=5: Hydra takes a number for no group's choice."""
    for word in overrides:
        group, _, choice = word.partition("=")
        folder = CONF / group
        if folder.is_dir():
            valid = choices_of(group)
            if choice not in valid:
                hint = f"did you mean {group}{choice}? " if f"{group}{choice}" in valid else ""
                return f"{word}: no such choice; {hint}there are {', '.join(valid)}"
    return f"a group's choice must be a name: {' '.join(overrides)}"
