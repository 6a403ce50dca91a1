"""The one class that is pickled: what a job is submitted with, and what it would do in each rank."""

import sys
from pathlib import Path


class RunFolder:
    """Calling it runs this rank of the run in `path`; returns the rank's exit code.

    Job scripts start ranks by `python -m pipeline.train`, without a pickle: the same thing, and nothing is loaded from
    a file that somebody else could have written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)

    def __call__(self) -> int:
        from pipeline.train import main  # torch comes with it

        return main([self.path])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"


if __name__ == "__main__":
    sys.exit(RunFolder(sys.argv[1])())
