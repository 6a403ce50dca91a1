"""Preparing from start to end: look at the source, plan, check the disk, pack in parallel, report, manifest.

Shards that are there already, of the same source and options, are kept; the manifest comes last.
"""

import contextlib
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal

from pipeline.data.prepare import report
from pipeline.data.prepare.kept import DataFolder, Record
from pipeline.data.prepare.options import Options, words_of
from pipeline.data.prepare.pack import kept_bytes, pack
from pipeline.data.prepare.plan import PlannedShard, hold_out, in_order, plan_shards
from pipeline.data.prepare.progress import Progress
from pipeline.data.prepare.recognise import read_source
from pipeline.data.prepare.source import NO_SPLIT, TRAIN, VALIDATION, Oddity, Source
from pipeline.data.shard_writer import of_split, write_manifest
from pipeline.errors import UserError
from pipeline.run_folder import write_atomically
from pipeline.wording import counted

BESIDE_A_SHARD_BYTES = 24_576
"""A tar's end, filled up to 10,240 bytes, a record of 1 kB, its part of the manifest, and blocks of 4 kB begun."""
BESIDE_A_SAMPLE_BYTES = 200
"""Its line in the index, below 130 bytes, and one in the report, which not every image has."""
SHOWN = 5
"""Names beside the splits that are told before anything is packed; the report has all."""
TRIED = 64
"""Images that are resized to learn what it leaves of their bytes."""


def prepare(
    folder: DataFolder, paths: Sequence[Path], options: Options, pool: Executor, workers: int, console: Console
) -> None:
    """Prepare what `paths` name into `folder`, which is held. Raises UserError, with what is complete kept.

    pool, workers: who reads headers and packs shards, and how many they are.
    """
    _say(console, f"looking at {', '.join(map(str, paths))}")
    source = read_source(list(paths), options, pool)
    hold_out(source, options.validation_share)
    source.name = options.name or source.name
    _tell(console, source)
    share = kept_share(source, options, pool)
    shards = plan_shards(source, options, share)
    again = options.validation_share is not None and folder.lacks_validation(paths)
    records = complete(console, folder, shards, again=again)
    missing = [shard for shard in shards if shard.name not in records]
    check_disk(console, folder.path, shards, missing, share)
    if missing:
        folder.manifest.unlink(missing_ok=True)
        folder.remove_all_but([shard.name for shard in shards])
    images = sum(len(shard.samples) for shard in missing)
    with Progress(console, len(records), len(shards), images) as progress:
        for shard, record in _packed(folder.path, missing, pool, workers):
            records[shard.name] = record
            progress.add(len(shard.samples))
    finish(console, folder, source, paths, [records[shard.name] for shard in shards], options)


def check_apart(data: Path, paths: Sequence[Path]) -> None:
    """Raise UserError where DATA lies in FROM: shards would be taken for images the next time."""
    for path in paths:
        if path.resolve() in (data.resolve(), *data.resolve().parents):
            raise UserError(f"DATA={data} lies in FROM={path}; name a folder outside of it")


def _tell(console: Console, source: Source) -> None:
    """What was found. Raises UserError where there is nothing to train on."""
    found = ", ".join(f"{split} {counted(len(images), 'image')}" for split, images in source.images.items())
    _say(console, f"{source.kind}: {counted(len(source.classes), 'class')}, {found}")
    for remark in source.remarks:
        _say(console, remark)
    beside = [oddity for oddity in source.oddities if oddity.split == NO_SPLIT]
    for oddity in beside[:SHOWN]:
        _say(console, report.printable(f"passed over: {oddity.name} ({oddity.detail})"))
    if len(beside) > SHOWN:
        _say(console, f"passed over: {len(beside) - SHOWN:,} more, which the report names")
    if not source.images.get(TRAIN):
        raise UserError("there is nothing to train on in FROM")
    if len(source.classes) < 2:
        raise UserError(f"FROM has one class, {source.classes[0]}; there is nothing to tell apart")
    if not source.images.get(VALIDATION):
        _say(console, "nothing to validate with, and training needs it; the end says what to do")


def kept_share(source: Source, options: Options, pool: Executor) -> float:
    """What is left of images' bytes, about: known once a few were resized. The same for the same source."""
    if options.shorter_side is None:
        return 1.0
    tried = in_order(TRAIN, source.images[TRAIN])[:TRIED]
    jobs = [pool.submit(kept_bytes, image, options.shorter_side) for _, image in tried]
    sizes = [job.result() for job in jobs]
    before = sum(size for size, _ in sizes)
    return sum(size for _, size in sizes) / before if before else 1.0


def complete(
    console: Console, folder: DataFolder, shards: Sequence[PlannedShard], *, again: bool = False
) -> dict[str, Record]:
    """The shards that are there already, by name.

    again: whether a finished data set may be written anew.

    Raises UserError where the folder is a finished data set of another source or other options.
    """
    prints = {shard.name: shard.fingerprint() for shard in shards}
    recorded = folder.recorded()
    if folder.manifest.exists() and recorded != prints and not again:
        raise UserError(
            f"{folder.path} holds a finished data set of another source or other options; name another folder, or "
            f"remove {folder.manifest} to have it written anew"
        )
    if others := sum(prints.get(name) != found for name, found in recorded.items()):
        _say(console, f"{counted(others, 'shard')} of another source or other options: written anew")
    found = {name: folder.record(name) for name in prints}
    return {name: record for name, record in found.items() if record and record.fingerprint == prints[name]}


def check_disk(
    console: Console, data: Path, shards: Sequence[PlannedShard], missing: Sequence[PlannedShard], share: float
) -> None:
    """Say what is to be written, and raise UserError where the disk cannot take it."""
    total, needed = (sum(_bytes_of(shard, share) for shard in some) for some in (shards, missing))
    free = shutil.disk_usage(data).free
    there = f", {len(shards) - len(missing):,} there already" if len(missing) < len(shards) else ""
    all_of_them = f"{counted(len(shards), 'shard')}, about {decimal(total)}{there}"
    _say(console, f"{all_of_them}: {decimal(needed)} to write, {decimal(free)} free in {data}")
    if needed > free:
        raise UserError(
            f"{data} has {decimal(free)} free, and about {decimal(needed)} are to be written: "
            f"{decimal(needed - free)} more are needed"
        )


def _bytes_of(shard: PlannedShard, share: float) -> int:
    """What a shard takes on the disk, about, with its index, its record and its part of the manifest."""
    return round(share * shard.source_bytes()) + BESIDE_A_SHARD_BYTES + BESIDE_A_SAMPLE_BYTES * len(shard.samples)


def _packed(
    folder: Path, missing: Iterable[PlannedShard], pool: Executor, workers: int
) -> Iterator[tuple[PlannedShard, Record]]:
    """Write the missing shards; each with its record, as they are complete. Every worker is busy, one shard waits."""
    waiting = iter(missing)
    running: dict[Future[Record], PlannedShard] = {}
    while True:
        while len(running) <= workers and (shard := next(waiting, None)) is not None:
            running[pool.submit(pack, folder, shard)] = shard
        if not running:
            return
        for job in wait(running, return_when=FIRST_COMPLETED).done:
            yield running.pop(job), _result(job, folder)


def _result(job: Future[Record], folder: Path) -> Record:
    """What a job returned; of a disk that filled up or went away, one line."""
    with _disk_told(folder):
        return job.result()


@contextlib.contextmanager
def _disk_told(folder: Path) -> Iterator[None]:
    """Make one line of what a disk refuses."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{folder}: {error.strerror or error}; what is complete is kept, and the same command goes on from there"
        ) from None


def finish(
    console: Console,
    folder: DataFolder,
    source: Source,
    paths: Sequence[Path],
    records: Sequence[Record],
    options: Options,
) -> None:
    """Write the report, then the manifest.

    Raises UserError where images cannot be decoded and are not to be left out, and where none of a split can.
    """
    entries = [record.entry for record in records if record.entry["samples"]]
    splits = {
        split: of_split([entry for entry in entries if entry["name"].startswith(f"{split}-")])
        for split in source.images
    }
    oddities = _in_kinds([*source.oddities, *(oddity for record in records for oddity in record.oddities)])
    with _disk_told(folder.path):
        write_atomically(folder.report, report.as_text(source, splits, oddities, options))
    report.show(console, source, splits, oddities, options)
    unreadable = report.counts(oddities).get("unreadable", 0)
    if unreadable and options.unreadable == "refuse":
        raise UserError(
            f"{counted(unreadable, 'image')} cannot be decoded: {folder.report} names them; mend them, or leave them "
            "out with ARGS=prepare.unreadable=leave_out, which keeps what is written by now"
        )
    for split, written in splits.items():
        if not written["samples"]:
            raise UserError(f"{split}: none of its images can be decoded; {folder.report} names them")
    if emptied := report.emptied(source, oddities):
        _say(console, report.printable(emptied))
    more = {
        "class_names": source.classes,
        "source": source.kind,
        "from": [str(path) for path in paths],
        "options": asdict(options),
        "oddities": report.counts(oddities),
    }
    with _disk_told(folder.path):
        write_manifest(folder.path, name=source.name, classes=len(source.classes), splits=splits, more=more)
    _say(console, f"prepared: {folder.path}; what was odd is named in {folder.report}")
    if VALIDATION not in splits:
        words = " ".join(words_of(replace(options, validation_share=0.1)))
        command = f"make prepare DATA={shlex.quote(str(folder.path))} FROM={_from(paths)} ARGS={shlex.quote(words)}"
        _say(
            console, f"no run can train on it yet: there are no images to validate with; to hold out a tenth: {command}"
        )


def _from(paths: Sequence[Path]) -> str:
    """FROM as it is typed."""
    return shlex.quote(str(paths[0]) if len(paths) == 1 else shlex.join(map(str, paths)))


def _in_kinds(oddities: Iterable[Oddity]) -> list[Oddity]:
    """In the order of a report."""
    kinds = list(report.KINDS)
    return sorted(oddities, key=lambda oddity: (kinds.index(oddity.kind), oddity.split, oddity.name))


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, soft_wrap=True, markup=False)
