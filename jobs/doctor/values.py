"""Checks of what only the user knows: account, data, image; and of the data themselves. Torch-free."""

import json
from collections.abc import Iterator
from pathlib import Path

from jobs import compose
from jobs.doctor.finding import Finding, Subject, gigabytes, judge
from jobs.doctor.folder import SHARED_MEMORY, free_bytes
from pipeline.config import check_data
from pipeline.errors import UserError

DATA, MEMORY = "data", "data in a node's memory"


def values(subject: Subject) -> Iterator[Finding]:
    """Whether the keys have values that a profile cannot have."""
    config = subject.config
    found = {
        "site.account": config.site.account,
        "data.path": config.data.path,
        "container.image": config.container.image,
    }
    for key, value in found.items():
        if key in subject.stand_ins:
            mend = f"give {compose.MISSING_BY_MAKE[key]}… or set it in conf/user.yaml"
            yield Finding(key, "FAIL", "no value", "one of yours", mend)
        elif value:
            yield Finding(key, "ok", value, verb="given")


def data(subject: Subject) -> Finding:
    """Whether there are prepared shards."""
    if unread := _unread(subject):
        return Finding(DATA, "skip", unread)
    try:
        check_data(_folder(subject))
        samples, _ = _manifest(subject)
    except UserError as error:
        return Finding(DATA, "FAIL", str(error), "a folder of prepared shards that all nodes see")
    wanted = subject.plan.samples
    mend = f"data.train_samples={samples} would use them all"
    return judge(DATA, samples >= wanted, f"{samples:,} training samples", f"{wanted:,}", mend)


def memory(subject: Subject) -> Finding:
    """The samples' bytes that nodes keep in /dev/shm; compared with this machine's where the run is here."""
    if unread := _unread(subject):
        return Finding(MEMORY, "skip", unread)
    try:
        _, needed = _manifest(subject)
    except UserError:
        return Finding(MEMORY, "skip", "there are no data")
    if subject.job is not None:
        mend = "the job looks before it copies them; Linux gives /dev/shm half of a node's memory"
        found = f"{gigabytes(needed)} of samples for /dev/shm of each node"
        nodes = subject.job.allocation.nodes
        if nodes > 1:  # two slots, and an eighth for rounds and chance
            found += f", or about {gigabytes(round(needed * 2.25 / nodes))} with data.placement=partitioned"
        return Finding(MEMORY, "ok", found, mend=mend)
    free = free_bytes(SHARED_MEMORY)
    mend = "free memory, or take fewer by data.train_samples="
    return judge(MEMORY, free >= needed, f"{gigabytes(free)} free in {SHARED_MEMORY}", gigabytes(needed), mend)


def _unread(subject: Subject) -> str:
    """Why there are no data to look at; empty where there are."""
    if subject.config.data.synthetic:
        return "images are synthetic"
    return "data.path has no value" if "data.path" in subject.stand_ins else ""


def _folder(subject: Subject) -> Path:
    return compose.REPOSITORY / subject.config.data.path


def _manifest(subject: Subject) -> tuple[int, int]:
    """Training samples that there are, and the bytes of those that the run uses and of all validation images."""
    try:
        splits = json.loads((_folder(subject) / "manifest.json").read_text())["splits"]
        samples, train_bytes = int(splits["train"]["samples"]), int(splits["train"]["bytes"])
        validation_bytes = int(splits["validation"]["bytes"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise UserError(
            f"{_folder(subject)}/manifest.json tells no samples ({error}); prepare the shards again"
        ) from None
    share = min(1.0, subject.plan.samples / max(1, samples))
    return samples, round(train_bytes * share) + validation_bytes
