"""What makes a run the run that it is: the keys that must stay as they were when it is gone on with. Torch-free."""

from pipeline.config.differences import leaves
from pipeline.config.schema import Config

RESUMABLE = (
    "run.", "resume.", "data.path", "data.prefetch_updates", "data.decoder_threads", "data.on_bad_sample",
    "data.placement", "data.exchange_round_bytes", "data.sample_kb", "container", "allreduce.timeout_s",
)  # fmt: skip
"""Keys that may differ when a run is gone on with: they change where and how long, not what. data.on_bad_sample too: a
run that a bad sample ended can go on without it, as it would have from the start."""

KEPT_OF_A_SITE = ("site.threads_per_worker", "site.workers_per_node", "site.backend", "site.device", "site.network")
"""Of a site's keys, those that change bits or the order of sums; the rest only change how a job is asked for."""

OF_WORKERS = ("workers", "nodes", "grid.", "site.workers_per_node", "site.network")
"""What may differ too with `resume.regrid`: sums are taken in another order, of the same images."""


def is_kept(key: str, *, regrid: bool = False) -> bool:
    """Whether a dotted key must stay as it was. regrid: whether workers and their grid may change."""
    if regrid and key.startswith(OF_WORKERS):
        return False
    of_a_job = key.startswith("site.") and not key.startswith(KEPT_OF_A_SITE)
    return not key.startswith(RESUMABLE) and not of_a_job


def identity(config: Config) -> dict[str, str]:
    """The keys that must stay, each with its value as text."""
    return {key: str(value) for key, value in leaves(config).items() if is_kept(key)}
