"""What is nobody else's business and must not stand in a run folder: by names of variables, in URLs, by its value.

Scripts, configurations and logs are passed on, to colleagues and in reports of faults. Torch-free.
"""

import re
from collections.abc import Mapping

SECRET = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE_KEY|PROXY|(^|_)(PASS|KEY|AUTH)$",
    re.IGNORECASE,
)
"""Names of variables whose value is a secret; proxies carry passwords."""

URL_WITH_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@")

SHORTEST = 8
"""Characters of a value that is looked for: a shorter one stands in many a text by chance."""


def named(word: str) -> str:
    """The name of a secret variable that a word of a command gives a value, as TOKEN=…; empty where none."""
    return next((name for name in re.findall(r"([A-Za-z_][A-Za-z0-9_]*)=", word) if SECRET.search(name)), "")


def held(text: str, environment: Mapping[str, str]) -> str:
    """The name of a secret variable of `environment` whose value stands in a text; empty where none.

    A path is no secret, nor a proxy without a password.
    """
    for name, value in environment.items():
        harmless = len(value) < SHORTEST or value.startswith("/") or ("proxy" in name.lower() and "@" not in value)
        if SECRET.search(name) and not harmless and value in text:
            return name
    return ""
