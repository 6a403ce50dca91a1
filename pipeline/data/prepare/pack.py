"""One shard: images are read, decoded once, and written. What a process of its own does; holds one image at a time."""

from pathlib import Path

from pipeline.data.prepare.examine import UnreadableError, examine
from pipeline.data.prepare.kept import DataFolder, Record
from pipeline.data.prepare.plan import PlannedShard
from pipeline.data.prepare.reader import Reader
from pipeline.data.prepare.source import Oddity, StoredImage
from pipeline.data.shard_writer import Sample, ShardWriter


def pack(folder: Path, shard: PlannedShard) -> Record:
    """Write a shard and its record into `folder`. Images that cannot be decoded are left out and told."""
    oddities: list[Oddity] = []
    with Reader() as reader, ShardWriter(folder, shard.name) as writer:
        for key, image in shard.samples:
            try:
                examined = examine(reader.read(image), shard.shorter_side)
            except UnreadableError as error:
                oddities.append(Oddity("unreadable", shard.split, image.name, str(error)))
                continue
            oddities += [Oddity(kind, shard.split, image.name, detail) for kind, detail in examined.oddities]
            writer.add(Sample(key, examined.image, image.label, examined.width, examined.height))
    return DataFolder(folder).note(shard, writer.entry, oddities)


def kept_bytes(image: StoredImage, shorter_side: int | None) -> tuple[int, int]:
    """What an image has in bytes, and what resizing leaves of them; nothing of one that cannot be decoded."""
    try:
        with Reader() as reader:
            return image.size, len(examine(reader.read(image), shorter_side).image)
    except UnreadableError:
        return 0, 0
