"""A value that must be one of a few. Torch-free."""

from collections.abc import Collection

from pipeline.errors import UserError, nearest


def one_of(key: str, found: str, valid: Collection[str]) -> None:
    """Raise UserError, with the nearest valid choice, unless `found` is one of `valid`."""
    if found in valid:
        return
    guess = nearest(found, valid)
    raise UserError(
        f"{key}={found}: no such choice{f', did you mean {guess[0]}?' if guess else ''}; there are {', '.join(valid)}"
    )
