"""What `make prepare` can be told beside DATA and FROM: words of Hydra's kind, `prepare.shorter_side=256`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pipeline.config.choices import one_of
from pipeline.errors import UserError, nearest

PREFIX = "prepare."


@dataclass(frozen=True)
class Options:
    """How images become shards."""

    shorter_side: int | None = None
    """Pixels to which the shorter side of larger images is brought (Lanczos, JPEG quality 95, 4:4:4). null: images stay
    as they are, byte for byte. What it costs in accuracy is unknown."""
    unreadable: str = "refuse"
    """Images that cannot be decoded: `refuse` names them and fails, `leave_out` names them and goes on without."""
    shard_bytes: int = 256_000_000
    """About the size of a shard."""
    validation_share: float | None = None
    """Share of each class to hold out, where the source has nothing to validate with."""
    ground_truth: str | None = None
    """File with the classes of ImageNet's validation images, where it is not beside the tars."""
    name: str | None = None
    """Of the data set, for headers and tables; null: as the source is called."""


def of_words(words: Sequence[str]) -> Options:
    """Options from words `prepare.KEY=VALUE`. Raises UserError, with the nearest key for one that is unknown."""
    known = {PREFIX + one.name: one.name for one in fields(Options)}
    plain: dict[str, str | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if key not in known:
            guess = nearest(key, known)
            raise UserError(f"{word}: no such option{f', did you mean {guess[0]}?' if guess else ''}; there are "
                            f"{', '.join(known)}")  # fmt: skip
        if not equals:
            raise UserError(f"{word} has no value; give {word}=…")
        plain[known[key]] = None if value == "null" else value
    try:
        merged = OmegaConf.merge(OmegaConf.structured(Options), OmegaConf.create(plain))
        options = cast(Options, OmegaConf.to_object(merged))
    except OmegaConfBaseException as error:
        raise UserError(f"{PREFIX}{error.full_key}: {str(error).splitlines()[0]}") from None
    _check(options)
    return options


def words_of(options: Options) -> list[str]:
    """The words that give these options."""
    usual = asdict(Options())
    return [f"{PREFIX}{name}={value}" for name, value in asdict(options).items() if value != usual[name]]


def _check(options: Options) -> None:
    one_of("prepare.unreadable", options.unreadable, ("refuse", "leave_out"))
    if options.shorter_side is not None and options.shorter_side < 1:
        raise UserError(
            f"prepare.shorter_side={options.shorter_side}: at least 1 pixel, or null to leave images as they are"
        )
    if options.shard_bytes < 1:
        raise UserError(f"prepare.shard_bytes={options.shard_bytes}: at least 1; 256000000 is usual")
    if options.validation_share is not None and not 0 < options.validation_share < 1:
        raise UserError(f"prepare.validation_share={options.validation_share}: between 0 and 1, as 0.1")
