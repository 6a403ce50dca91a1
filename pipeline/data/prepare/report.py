"""What became of a source: a table on the console, and report.txt, which names every oddity."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from pipeline.data.prepare.options import Options
from pipeline.data.prepare.source import TRAIN, Oddity, Source
from pipeline.wording import counted

SHOWN = 6
"""Classes that the table names."""

KINDS = {
    "unreadable": "cannot be decoded",
    "duplicate": "a later member of its archive has the same name, and counts, as it does where tar unpacks them",
    "passed over": "not an image by its name, or as report.txt says",
    "CMYK": "converted to an RGB JPEG (quality 100, 4:4:4)",
    "not a JPEG": "converted to an RGB JPEG (quality 100, 4:4:4)",
    "EXIF orientation": "kept as its pixels lie: decoders do not turn it",
    "gray": "kept as it is; decodes to three equal channels",
    "progressive": "kept as it is; takes longer to decode",
}
"""Kinds of oddities, and what was done."""


def counts(oddities: Sequence[Oddity]) -> dict[str, int]:
    """How many of each kind there are; kinds without any are left out."""
    found = Counter(oddity.kind for oddity in oddities)
    return {kind: found[kind] for kind in KINDS if found[kind]}


def done_with(kind: str, options: Options) -> str:
    """What was done with images of a kind."""
    if kind == "unreadable":
        left_out = "left out" if options.unreadable == "leave_out" else "not left out unless you say so"
        return f"{KINDS[kind]}; {left_out} (prepare.unreadable)"
    if options.shorter_side is not None and kind in ("CMYK", "not a JPEG"):
        return KINDS[kind].replace("quality 100", "quality 100, 95 where resized")
    return KINDS[kind]


def emptied(source: Source, oddities: Sequence[Oddity]) -> str:
    """The classes that had images to train on, of which none can be decoded; empty where there are none."""
    unreadable = {oddity.name for oddity in oddities if oddity.kind == "unreadable" and oddity.split == TRAIN}
    images = source.images.get(TRAIN, []) if unreadable else []
    lost = {image.label for image in images} - {image.label for image in images if image.name not in unreadable}
    names = [source.classes[label] for label in sorted(lost)]
    more = ", …" if len(names) > SHOWN else ""
    return (
        f"no image to train on is left of {counted(len(names), 'class')}: {', '.join(names[:SHOWN])}{more}"
        if names
        else ""
    )


def as_text(source: Source, splits: Mapping[str, Any], oddities: Sequence[Oddity], options: Options) -> str:
    """report.txt: a heading, a line a split, and for each kind the images of it. Same source, same text."""
    lines = [f"{source.name}, from {source.kind}: {counted(len(source.classes), 'class')}"]
    for split, written in splits.items():
        shards = counted(len(written["shards"]), "shard")
        lines.append(f"{split}: {counted(written['samples'], 'image')}, {written['bytes']:,} bytes in {shards}")
    if options.shorter_side is not None:
        lines.append(resizing(options))
    if lost := emptied(source, oddities):
        lines.append(printable(lost))
    for kind, count in counts(oddities).items():
        lines += [
            "",
            f"{kind}: {counted(count, 'image' if kind != 'passed over' else 'name')}: {done_with(kind, options)}",
        ]
        lines += [_line(oddity) for oddity in oddities if oddity.kind == kind]
    return "\n".join(lines) + "\n"


def _line(oddity: Oddity) -> str:
    detail = f"  ({printable(oddity.detail)})" if oddity.detail else ""
    return f"    {oddity.split}  {printable(oddity.name)}{detail}"


def resizing(options: Options) -> str:
    """What is known of resizing."""
    return (
        f"shorter side of larger images: {options.shorter_side} pixels (Lanczos, JPEG quality 95, 4:4:4); its cost in "
        "accuracy is unknown"
    )


def show(
    console: Console, source: Source, splits: Mapping[str, Any], oddities: Sequence[Oddity], options: Options
) -> None:
    """The table at the end."""
    more = ", …" if len(source.classes) > SHOWN else ""
    table = Table(title=Text(printable(f"{source.name}, from {source.kind}")), title_justify="left", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    table.add_row("classes", Text(f"{len(source.classes):,}: {printable(', '.join(source.classes[:SHOWN]))}{more}"))
    for split, written in splits.items():
        shards = counted(len(written["shards"]), "shard")
        table.add_row(split, f"{counted(written['samples'], 'image')}, {decimal(written['bytes'])} in {shards}")
    if options.shorter_side is not None:
        table.add_row("resized", resizing(options))
    for kind, count in counts(oddities).items():
        table.add_row(kind, f"{count:,}: {done_with(kind, options)}")
    console.print(table)


def printable(text: str) -> str:
    """On one line and without what would command a terminal."""
    return "".join(one if one.isprintable() else "?" for one in text)
