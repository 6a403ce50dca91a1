"""The same targets, led by coverage: `python -m tests.fuzzing.with_atheris TARGET SECONDS`, where atheris is installed.

It is in no lock file: it instruments byte code, and a run needs none of it. Ends with the target's own traceback, and a
file crash-… with the content, where a reader fails.
"""

import sys
import tempfile
from pathlib import Path

import atheris
import torch  # noqa: F401 - before: all of it would be instrumented, which takes minutes

with atheris.instrument_imports(include=["pipeline", "yaml", "tarfile"]):
    from tests.fuzzing.bounds import bounded
    from tests.fuzzing.targets import targets


def main(name: str, seconds: int) -> None:
    """Fuzz one target for so long, from its good file on."""
    folder = Path(tempfile.mkdtemp())
    target = targets(folder)[name]
    good = folder / "corpus"
    good.mkdir()
    (good / "good").write_bytes(target.path.read_bytes())

    def test_one(content: bytes) -> None:
        target.path.write_bytes(content)
        bounded(target.read)

    options = [f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=4096", "-max_len=1000000"]
    atheris.Setup([sys.argv[0], *options, str(good)], test_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
