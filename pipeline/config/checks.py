"""The checks that need no cluster: each contradiction of a configuration is one line that says what would be right.

Torch-free.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from pipeline.config.choices import one_of
from pipeline.config.optim_checks import check_optim
from pipeline.config.paths import check_written_out
from pipeline.config.plan import Plan, make_plan
from pipeline.config.recipe_checks import check_grid, check_sizes, check_stages
from pipeline.config.schema import Config
from pipeline.config.secrets import URL_WITH_PASSWORD
from pipeline.config.site import NetworkConfig
from pipeline.config.site_checks import check_site
from pipeline.errors import UserError

ALL_REDUCES = ("torus", "ring", "hierarchical", "hybrid", "multicolor", "tree", "native")
MODELS = ("small_resnet", "resnet50", "googlenet")
BATCH_NORM = ("moving_average", "last_batch")
WIRES = ("fp16", "bf16", "fp32")
COMPUTE = ("fp32", "fp16", "bf16")
BACKENDS = ("gloo", "nccl")
DEVICES = ("cpu", "cuda")
DECODERS = ("dali", "torchvision")
ON_BAD_SAMPLE = ("refuse", "replace")
PLACEMENTS = ("auto", "replicated", "partitioned")
GB_PER_S = 1e-6, 1e5
"""Rates that links and file systems have, 1e9 bytes a second: 1 kB/s to 100 TB/s."""
MOST_LATENCY_US = 1e7
IMAGES_PER_S = 1e-3, 1e9
MOST_START_S = 1_000_000
SAMPLE_KB = 1e-3, 1e6

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample"
"""Where `make sample` writes."""


def check(config: Config) -> None:
    """Raise UserError for the first thing in `config` that cannot be run."""
    _check_text(config)
    _check_paths(config)
    _check_choices(config)
    _check_finite(config)
    check_sizes(config)
    _check_numbers(config)
    check_optim(config.optim, config.recipe.epochs)
    _check_network(config.site.network)
    _check_hardware(config)
    check_site(config.site, config.container)
    _check_upper_bounds(config)
    _check_model(config)
    check_stages(config)
    check_grid(config)
    _check_exchange(config, make_plan(config))


def _check_exchange(config: Config, plan: Plan) -> None:
    """A node can only shuffle its own samples where every node has some."""
    most = max(stage.total_batch for stage in plan.stages)
    if config.data.exchange_every > 1 and plan.samples < most:
        raise UserError(
            f"data.exchange_every={config.data.exchange_every}: an epoch of {plan.samples:,} samples is less than an "
            f"update's {most:,}, so some nodes would have none to shuffle; take data.exchange_every=1"
        )


def check_data(path: Path) -> None:
    """Raise UserError unless `path` holds prepared shards."""
    if not path.is_dir():
        sample = path.resolve() == SAMPLE
        mend = "`make sample` makes the sample" if sample else "DATA= or data.path= names another"
        raise UserError(f"data.path {path}: no such folder; {mend}")
    if not (path / "manifest.json").is_file():
        raise UserError(
            f"data.path {path}: no manifest.json in it, so these are not prepared shards; see `make sample`"
        )


def _check_choices(config: Config) -> None:
    one_of("recipe.batch_norm", config.recipe.batch_norm, BATCH_NORM)
    one_of("allreduce.name", config.allreduce.name, (*ALL_REDUCES, "auto"))
    for candidate in config.allreduce.candidates:
        one_of("allreduce.candidates", candidate, ALL_REDUCES)
    if config.allreduce.name == "auto" and not config.allreduce.candidates:
        raise UserError(
            f"allreduce.candidates is empty, so there is nothing to measure; name some of {', '.join(ALL_REDUCES)}"
        )
    one_of("allreduce.wire", config.allreduce.wire, WIRES)
    one_of("model.name", config.model.name, MODELS)
    one_of("precision.compute", config.precision.compute, COMPUTE)
    one_of("site.backend", config.site.backend, BACKENDS)
    one_of("site.device", config.site.device, DEVICES)
    one_of("data.decoder", config.data.decoder, DECODERS)
    one_of("data.decode_on", config.data.decode_on, DEVICES)
    one_of("data.on_bad_sample", config.data.on_bad_sample, ON_BAD_SAMPLE)
    one_of("data.placement", config.data.placement, PLACEMENTS)
    if config.site.backend == "nccl" and config.site.device == "cpu":
        raise UserError("site.backend=nccl needs site.device=cuda; on CPUs take site.backend=gloo")
    if config.data.decode_on == "cuda" and config.site.device == "cpu":
        raise UserError("data.decode_on=cuda needs site.device=cuda; this site's workers have no GPU, so take cpu")
    if config.model.name == "small_resnet" and len(config.model.widths) != len(config.model.blocks):
        widths, blocks = len(config.model.widths), len(config.model.blocks)
        raise UserError(
            f"model.widths names {widths} layers and model.blocks {blocks}; give one number a layer in both"
        )


def _check_text(config: Config) -> None:
    """No text of a configuration may hold what neither a file name nor a shell's word can, nor a password."""
    for key, value in _leaves("", asdict(config)):
        if isinstance(value, str) and ("\0" in value or any("\ud800" <= one <= "\udfff" for one in value)):
            raise UserError(f"{key}={value!r:.80}: holds a NUL or half of a character, which no program takes")
        if isinstance(value, str) and URL_WITH_PASSWORD.search(value):
            raise UserError(
                f"{key} holds an address with a password, and run folders are shown to others; leave the password to a "
                "file that only you can read"
            )


def _check_paths(config: Config) -> None:
    check_written_out("run.dir", config.run.dir)
    for key, path in (("data.path", config.data.path), ("container.image", config.container.image)):
        if path:
            check_written_out(key, path)


def _check_finite(config: Config) -> None:
    """No number of a configuration may be infinite or none at all: it would reach the weights unnoticed."""
    for key, value in _leaves("", asdict(config)):
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{key}={value}: must be a finite number")


def _leaves(prefix: str, tree: object) -> Iterator[tuple[str, object]]:
    """(dotted key, value) of every leaf of nested dicts and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    if items is None:
        yield prefix, tree
        return
    for name, value in items:
        yield from _leaves(f"{prefix}.{name}" if prefix else str(name), value)


def _check_upper_bounds(config: Config) -> None:
    at_most = {
        "seed": (config.seed, 2**63 - 1),
        "precision.loss_scale": (config.precision.loss_scale, 2.0**64),
        "data.image_size": (config.data.image_size, 4096),
        "data.exchange_round_bytes": (config.data.exchange_round_bytes, 2**30),
        "allreduce.chunk_kb": (config.allreduce.chunk_kb, 2**30),
        "allreduce.ring_from_kb": (config.allreduce.ring_from_kb, 2**30),
        "site.threads_per_worker": (config.site.threads_per_worker, 1024),
        "site.decoder_threads": (config.site.decoder_threads, 1024),
        "data.decoder_threads": (config.data.decoder_threads, 1024),
    }
    for name, (number, most) in at_most.items():
        if number is not None and number > most:
            raise UserError(f"{name}={number}: must be at most {most}")
    if config.precision.loss_scale is not None and config.precision.loss_scale < 2.0**-24:
        raise UserError(f"precision.loss_scale={config.precision.loss_scale}: must be at least 2**-24; null is none")


def _check_model(config: Config) -> None:
    model = config.model
    if min([model.stem, *model.widths, *model.blocks]) < 1:
        raise UserError(
            f"model.stem={model.stem} model.widths={model.widths} model.blocks={model.blocks}: each must be at least 1"
        )


def _check_numbers(config: Config) -> None:
    at_least = {
        "data.image_size": (config.data.image_size, 1),
        "data.prefetch_updates": (config.data.prefetch_updates, 1),
        "data.exchange_every": (config.data.exchange_every, 1),
        "data.exchange_round_bytes": (config.data.exchange_round_bytes, 1),
        "data.decoder_threads": (config.data.decoder_threads, 1),
        "site.decoder_threads": (config.site.decoder_threads, 1),
        "model.classes": (config.model.classes, 2),
        "site.threads_per_worker": (config.site.threads_per_worker, 1),
        "run.checkpoint_every_updates": (config.run.checkpoint_every_updates, 1),
        "run.keep_checkpoints": (config.run.keep_checkpoints, 1),
        "run.validate_every_epochs": (config.run.validate_every_epochs, 0),
        "run.agree_every_updates": (config.run.agree_every_updates, 1),
        "run.stop_after_epochs": (config.run.stop_after_epochs, 1),
        "run.stop_after_updates": (config.run.stop_after_updates, 1),
        "run.profile": (config.run.profile, 0),
        "run.stop_after_lost_loss": (config.run.stop_after_lost_loss, 1),
        "run.slow_update_times": (config.run.slow_update_times, 1),
        "seed": (config.seed, 0),
        "allreduce.chunk_kb": (config.allreduce.chunk_kb, 1),
        "allreduce.colors": (config.allreduce.colors, 1),
        "allreduce.ring_from_kb": (config.allreduce.ring_from_kb, 0),
        "site.network.nodes_per_rack": (config.site.network.nodes_per_rack, 1),
        "optim.warmup_epochs": (config.optim.warmup_epochs, 0),
        "optim.warmup_lr": (config.optim.warmup_lr, 0),
        "optim.weight_decay": (config.optim.weight_decay, 0),
        "precision.loss_scale_growth_interval": (config.precision.loss_scale_growth_interval, 1),
    }
    for key, (found, least) in at_least.items():
        if found is not None and found < least:
            raise UserError(f"{key}={found}: must be at least {least}")
    above_zero = {
        "optim.lr": config.optim.lr,
        "allreduce.bucket_mb": config.allreduce.bucket_mb,
        "allreduce.timeout_s": config.allreduce.timeout_s,
        "precision.loss_scale": config.precision.loss_scale,
        "data.validation_crop": config.data.validation_crop,
        "run.log_every_s": config.run.log_every_s,
        "run.checkpoint_every_minutes": config.run.checkpoint_every_minutes,
    }
    for key, value in above_zero.items():
        if value is not None and not value > 0:
            raise UserError(f"{key}={value}: must be above 0")
    if not 0 <= config.recipe.label_smoothing < 1:
        raise UserError(f"recipe.label_smoothing={config.recipe.label_smoothing}: must be from 0 to below 1")
    _check_window(config)


def _check_network(network: NetworkConfig) -> None:
    for name, link in (("worker", network.worker), ("node", network.node), ("rack", network.rack)):
        if link is None:
            continue
        _check_within(f"site.network.{name}.gb_per_s", link.gb_per_s, *GB_PER_S, "1e9 bytes a second")
        if link.latency_us < 0:
            raise UserError(f"site.network.{name}.latency_us={link.latency_us}: must be at least 0")
        if link.latency_us > MOST_LATENCY_US:
            raise UserError(
                f"site.network.{name}.latency_us={link.latency_us:g}: must be at most {MOST_LATENCY_US:g}, "
                "which is ten seconds"
            )
    if (network.rack is None) != (network.nodes_per_rack is None):
        raise UserError(
            "site.network.rack and site.network.nodes_per_rack go together: a rack's uplink, and how many nodes share "
            "it; null both where one switch joins all nodes"
        )


def _check_hardware(config: Config) -> None:
    hardware = config.site.hardware
    measured = set()
    for place, speed in enumerate(hardware.speeds):
        key = f"site.hardware.speeds[{place}]"
        one_of(f"{key}.precision", speed.precision, COMPUTE)
        one_of(f"{key}.model", speed.model, MODELS)
        if speed.batch < 1 or speed.image_size < 1 or not speed.images_per_s > 0:
            raise UserError(f"{key}: batch and image_size are at least 1, images_per_s is above 0")
        _check_within(f"{key}.images_per_s", speed.images_per_s, *IMAGES_PER_S, "images a second, of one worker")
        what = speed.model, speed.image_size, speed.precision, speed.batch
        if what in measured:
            raise UserError(
                f"{key}: {speed.model} on {speed.image_size} pixels in {speed.precision} at {speed.batch} images "
                "stands there already; keep one of them"
            )
        measured.add(what)
    if hardware.memory_gb is not None and not hardware.memory_gb > 0:
        raise UserError(f"site.hardware.memory_gb={hardware.memory_gb}: must be above 0; null where it is not known")
    if hardware.read_gb_per_s is not None:
        _check_within(
            "site.hardware.read_gb_per_s", hardware.read_gb_per_s, *GB_PER_S,
            "1e9 bytes a second; null where it is not known",
        )  # fmt: skip
    if hardware.start_s is not None and not 0 <= hardware.start_s <= MOST_START_S:
        raise UserError(
            f"site.hardware.start_s={hardware.start_s:g}: must be at least 0 and at most {MOST_START_S:,}; "
            "null where it is not known"
        )
    if config.data.sample_kb is not None:
        _check_within("data.sample_kb", config.data.sample_kb, *SAMPLE_KB, "1e3 bytes; null where it is not known")


def _check_within(key: str, found: float, least: float, most: float, unit: str) -> None:
    """Raise UserError for a size of a machine that no machine has: mostly another unit than the key's."""
    if not found > 0:
        raise UserError(f"{key}={found}: must be above 0, in {unit}")
    if not least <= found <= most:
        raise UserError(f"{key}={found:g}: must be from {least:g} to {most:g}, in {unit}")


def _check_window(config: Config) -> None:
    low, high = _pair("data.window.area", config.data.window.area)
    if not 0 < low <= high <= 1:
        raise UserError(
            f"data.window.area=[{low:g},{high:g}]: shares of the image's area, 0 < smallest <= largest <= 1"
        )
    low, high = _pair("data.window.ratio", config.data.window.ratio)
    if not 0 < low <= high:
        raise UserError(f"data.window.ratio=[{low:g},{high:g}]: width : height, 0 < smallest <= largest")
    if config.data.validation_crop > 1:
        raise UserError(f"data.validation_crop={config.data.validation_crop:g}: a share of the shorter side, at most 1")
    for key, found in (("data.mean", config.data.mean), ("data.std", config.data.std)):
        if len(found) != 3:
            raise UserError(f"{key} has {len(found)} numbers; one each for red, green and blue")
    if min(config.data.std) <= 0:
        raise UserError(f"data.std={config.data.std}: pixels are divided by it, so it must be above 0")


def _pair(key: str, found: list[float]) -> tuple[float, float]:
    if len(found) != 2:
        raise UserError(f"{key} has {len(found)} numbers; give [smallest,largest]")
    return found[0], found[1]
