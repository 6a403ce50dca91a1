"""From make's variables to Hydra's words: `python -m jobs.words_of_make MODULE [WORD…] {} [WORD…]`.

Runs MODULE with the words in its place, `{}` standing for those of EXP, SITE, WORKERS, NODES, RESUME, GROUP, DATA and
IMAGE. They come through the environment, so that no shell reads what is in them. Torch-free.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence

CHOICES = {"EXP": "exp", "SITE": "site", "WORKERS": "workers", "NODES": "nodes"}
"""Variables that are given as Hydra reads them, so that a list makes several runs."""

TEXTS = {"RESUME": "run.resume", "GROUP": "site.account", "DATA": "data.path", "IMAGE": "container.image"}
"""Variables that are text, whatever they look like."""

PLACE = "{}"


def words(variables: Mapping[str, str]) -> list[str]:
    """The override words of make's variables; one that is empty was not given."""
    given = {name: variables.get(name, "").strip() for name in (*CHOICES, *TEXTS)}
    given["EXP"] = experiments(given["EXP"])
    return [
        *(f"{key}={given[name]}" for name, key in CHOICES.items() if given[name]),
        *(f"{key}={text(given[name])}" for name, key in TEXTS.items() if given[name]),
    ]


def experiments(given: str) -> str:
    """EXP=5 is exp=exp5, in lists too."""
    return re.sub(r"(^|,)\s*(?=\d+\s*(?:,|$))", r"\1exp", given)


def text(value: str) -> str:
    """`value` as one quoted text of Hydra's grammar, so that 1e5 stays 1e5; null stays null, which is none."""
    if value == "null":
        return value
    quoted = re.sub(r"(\\*)'", r"\1\1\\'", value)  # only backslashes before a quote mean anything
    return "'" + re.sub(r"(\\+)$", r"\1\1", quoted) + "'"


def main(arguments: Sequence[str], variables: Mapping[str, str]) -> None:
    """Become the module that the arguments name."""
    module, *before = arguments
    after: list[str] = []
    if PLACE in before:
        at = before.index(PLACE)
        before, after = before[:at], before[at + 1 :]
    os.execv(sys.executable, [sys.executable, "-m", module, *before, *words(variables), *after])


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
