"""What the manifest.json of prepared shards counts, for a configuration that leaves it to the data. Torch-free."""

import json
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.checks import check_data
from pipeline.errors import UserError


@dataclass(frozen=True)
class Counts:
    """Of a data set."""

    classes: int
    train_samples: int


def read_counts(folder: Path) -> Counts:
    """What `folder` holds. Raises UserError where there are no prepared shards in it."""
    check_data(folder)
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text())
        return Counts(int(manifest["classes"]), int(manifest["splits"]["train"]["samples"]))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, RecursionError):
        raise UserError(f"{path} tells no classes or training samples; prepare the shards again") from None
