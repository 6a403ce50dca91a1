"""What a run is: the schema of conf/ as dataclasses, one docstring a field. A site and its container are in site.py.

Hydra composes conf/ into a tree of exactly this shape; an unknown key or a value of the wrong type is refused there.
Numbers of papers stand in conf/, never here: a default in this file is one that no paper speaks of.
Torch-free.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from omegaconf import MISSING

from pipeline.config.site import ContainerConfig, SiteConfig


@dataclass
class GridConfig:
    """The torus: rank = row * horizontal + column, so a row is a run of neighbouring ranks."""

    vertical: int = MISSING
    """Number of rows: the length of a column's ring."""
    horizontal: int = MISSING
    """Number of columns: the length of a row's ring."""


@dataclass
class RealGridConfig:
    """The grid of the real workers; with one side given the other follows from the number of workers."""

    vertical: int | None = None
    """Number of rows; null: the recipe's, or the nearest to a square."""
    horizontal: int | None = None
    """Number of columns; null: the recipe's, or the nearest to a square."""


@dataclass
class StageConfig:
    """A span of epochs with one per-worker batch; it lasts until the next stage starts or the run ends."""

    start_epoch: int = MISSING
    """The first epoch of the stage, counted from 0."""
    per_worker_batch: int = MISSING
    """Images a virtual worker takes in one update; batch-norm sees this many at a time."""


@dataclass
class RecipeConfig:
    """The run as its paper had it, in virtual workers. The number of real ones is `workers`."""

    system: str = ""
    """Who published it, for headers and tables."""
    workers: int = MISSING
    """Virtual workers: the GPUs of the paper."""
    grid: GridConfig = field(default_factory=GridConfig)
    """Their grid; vertical * horizontal = workers."""
    images: int = MISSING
    """Training images an epoch at full size (ImageNet: 1,281,167)."""
    epochs: int = MISSING
    """Length of the run."""
    stages: list[StageConfig] = field(default_factory=list)
    """Batch-size control: the first stage starts at epoch 0, the others in rising order."""
    label_smoothing: float = 0.0
    """Share of the label's weight that is spread over all classes, 0 to 1."""
    batch_norm: str = "moving_average"
    """Statistics that validation uses, averaged over the workers: `moving_average`, or `last_batch`, those of the last
    mini-batch alone (Akiba et al. 2017)."""
    smallest_scale_batch: int = 16
    """Least images an update in the scale model of a recipe of fewer GPUs than `scale`; where this makes the batch
    larger than the paper's share, the run is not to scale."""


@dataclass
class LevelConfig:
    """A span of epochs with one learning rate; it lasts until the next level starts or the run ends."""

    start_epoch: float = MISSING
    """The first epoch of the level, counted from 0."""
    factor: float = MISSING
    """Learning rate as a share of the peak."""


@dataclass
class OptimConfig:
    """The optimiser and its schedule."""

    name: str = "lars"
    """`lars`: layer-wise adaptive rate scaling, in the form of Sony's own NNabla code. `sgd`: momentum SGD, plain or
    Nesterov's. `rmsprop_warmup`: RMSprop that turns into momentum SGD (Akiba et al. 2017)."""
    lr: float = MISSING
    """Peak learning rate, or with lr_reference_batch that for so many images an update."""
    lr_reference_batch: int | None = None
    """The peak is lr * B / this, B the images an update of the first stage: linear scaling (Goyal et al. 2017), in the
    scale model with its own B. null: lr is the peak, whatever the batch."""
    warmup_epochs: float = MISSING
    """LR rises linearly from warmup_lr to the peak over these epochs; 0: no warm-up."""
    warmup_lr: float = 0.0
    """LR at the run's start; with lr_reference_batch the scale model takes its share of it, as of the peak."""
    schedule: str = "polynomial"
    """After the warm-up: `polynomial`, `step` or `slow_start` (levels)."""
    decay_power: float | None = None
    """LR falls as (1 - progress) ** decay_power to 0 (polynomial)."""
    milestones: list[float] = field(default_factory=list)
    """Epochs from which on LR is decay_factor times what it was, rising (step)."""
    decay_factor: float | None = None
    """What LR is multiplied with at each milestone (step)."""
    levels: list[LevelConfig] = field(default_factory=list)
    """The first at epoch 0, the others in rising order (slow_start)."""
    momentum: float = MISSING
    """Momentum at `momentum_reference_batch` images an update."""
    momentum_reference_batch: int | None = MISSING
    """Momentum keeps the noise scale LR*N/(B*(1-m)) when the total batch B leaves this value; null: it is constant."""
    nesterov: bool = False
    """Nesterov's momentum (sgd)."""
    momentum_correction: bool = True
    """What velocity was gathered at another LR is brought to the present one (Goyal et al. 2017), as in torch's SGD.
    false: LR is inside the velocity, as in Caffe, and old velocity keeps the LR that it was gathered at (sgd)."""
    weight_decay: float = MISSING
    """L2 penalty, added to the gradient."""
    no_decay: list[str] = field(default_factory=lambda: ["batch_norm", "bias"])
    """Parameters without weight decay, and without LARS's rate: `batch_norm`, `bias`, both or none."""
    coefficient: float | None = None
    """LARS's trust coefficient (lars)."""
    eps: float | None = None
    """LARS's eps: a weight norm or a denominator below it is treated as too small to divide by (lars)."""
    rms_lr: float | None = None
    """Learning rate of the RMSprop part, whatever the batch (rmsprop_warmup, as all below)."""
    rms_decay: float | None = None
    """Of the running mean of squared gradients."""
    rms_eps: float | None = None
    """Added to the root of that mean."""
    rms_center_epoch: float | None = None
    """Epoch at which half of an update is SGD's."""
    rms_period_epochs: float | None = None
    """How long the change takes: SGD's share is exp(2 * x) / 2 before the centre, x in such periods from there."""
    rms_slope: float | None = None
    """SGD's share is 1/2 + rms_slope * x for half a period behind the centre, at most 1, and 1 after that."""


@dataclass
class PrecisionConfig:
    """Numbers in flight."""

    compute: str = "fp32"
    """Forward and backward pass: `fp32`, or `fp16`/`bf16` by autocast with fp32 master weights."""
    loss_scale: float | None = MISSING
    """First value of the dynamic loss scale; null: no loss scaling."""
    loss_scale_growth_interval: int = 2000
    """Updates without an overflow after which the loss scale doubles."""


@dataclass
class AllReduceConfig:
    """How gradients are averaged over the workers."""

    name: str = MISSING
    """`torus`, `ring`, `hierarchical`, `hybrid`, `multicolor`, `tree`, `native`, or `auto`: the quickest of them."""
    wire: str = "fp16"
    """Type of a gradient on the wire: `fp16`, `bf16` or `fp32`."""
    bucket_mb: float = MISSING
    """Size of a gradient bucket in MiB of fp32; DDP hands buckets over while the backward pass still runs."""
    chunk_kb: int | None = None
    """Size of a chunk in KiB on the wire: buckets are cut so that one's phases run beside the next's. null: what the
    model of the site's network gives."""
    colors: int = 4
    """Trees, and children a worker has in one (multicolor)."""
    ring_from_kb: int = 1024
    """Size of a bucket in KiB on the wire from which the ring takes it (hybrid)."""
    ahead: bool = False
    """Post all receives of a flat ring at the start: memory for a chunk, for hops that do not wait (ring, hybrid)."""
    candidates: list[str] = field(default_factory=list)
    """What is measured, on the run's own buckets and grid, before the first update (auto)."""
    timeout_s: float = 300.0
    """A message between workers that takes longer is an error: who does not answer is named, and all end."""


@dataclass
class ModelConfig:
    """The network."""

    name: str = MISSING
    """`resnet50`, `googlenet`: torchvision's. `small_resnet`: bottleneck blocks of `widths` for small images."""
    classes: int = MISSING
    """Number of classes; conf/model/ takes the data's."""
    stem: int = 64
    """Channels of the first convolution (small_resnet)."""
    widths: list[int] = field(default_factory=list)
    """Inner channels of the bottleneck blocks by layer; a block's output has four times as many (small_resnet)."""
    blocks: list[int] = field(default_factory=list)
    """Bottleneck blocks by layer (small_resnet)."""
    zero_last_gamma: bool = True
    """The last batch-norm weight of every block starts at zero, so that a block starts as its shortcut (Goyal et al.
    2017); false: at one. GoogLeNet has no shortcuts, and none of these."""


@dataclass
class WindowConfig:
    """The random window of a training image, as torchvision's RandomResizedCrop draws it."""

    area: list[float] = MISSING
    """Smallest and largest share of the image's area."""
    ratio: list[float] = MISSING
    """Smallest and largest width : height."""


@dataclass
class DataConfig:
    """The images."""

    name: str = MISSING
    """For headers and tables."""
    path: str = MISSING
    """Folder of the shards and their manifest.json, as `make sample` leaves it."""
    classes: int | None = None
    """Number of classes; null: what manifest.json says when a run is made."""
    image_size: int = MISSING
    """Height and width of what the network sees, in pixels."""
    window: WindowConfig = field(default_factory=WindowConfig)
    """Training: the random window that is resized to image_size."""
    mirror: bool = MISSING
    """Training: mirror half of the images."""
    validation_crop: float = MISSING
    """Validation: side of the central square window, as a share of the image's shorter side."""
    mean: list[float] = MISSING
    """Mean of each channel (R, G, B), of pixels in 0 to 255."""
    std: list[float] = MISSING
    """Standard deviation of each channel, of pixels in 0 to 255."""
    sample_kb: float | None = None
    """Mean size of an encoded image, 1e3 bytes, for the estimate of staging and exchange; null: they are left out."""
    synthetic: bool = False
    """Batches made once of noise from the seed, in the shape of these images: no files, no decoding, no validation."""
    train_samples: int | None = None
    """Use the first so many training samples; null: all, or what the scale model asks for."""
    all_samples: bool = False
    """Where train_samples is null: use all that manifest.json counts when a run is made, in the scale model too."""
    prefetch_updates: int = 3
    """Updates whose images are decoded ahead of the trainer."""
    decoder: str = MISSING
    """`dali`: NVIDIA DALI. `torchvision`: where DALI cannot be had. They decode alike and resize within rounding, so a
    run keeps the one it began with."""
    decoder_threads: int = 1
    """CPU threads that decode, a worker; their number changes no pixel. conf/data/ takes the site's."""
    decode_on: str = "cpu"
    """`cpu`, or `cuda`: JPEGs are decoded, cut out and resized on the worker's GPU (dali). conf/data/ takes the site's
    device. They resize within rounding, so a run keeps the one it began with."""
    on_bad_sample: str = "refuse"
    """A sample that cannot be decoded: `refuse` names it and ends the run. `replace` names it and goes on: in training
    one of the index's first 64 stands in for it, validation counts the image as wrong."""
    placement: str = "auto"
    """What a node keeps in memory: `replicated`, all training samples; `partitioned`, what its workers need in this
    epoch, exchanged between nodes while they train; `auto`, the first where a fifth of the free memory is left beside
    it. Changes no batch and no pixel."""
    exchange_every: int = 1
    """1: every epoch is a global shuffle. k: nodes exchange samples every k epochs of a stage and shuffle their own in
    between (Kumar et al. 2017), so the batches depend on which nodes there are."""
    exchange_round_bytes: int = 8 * 2**20
    """About what a node sends in one round of the exchange, of which two are in memory beside the samples. What fits in
    a processor's cache is quickest; hundreds of nodes want some 50 kB for each of them."""


@dataclass
class ResumeConfig:
    """How a run is gone on with."""

    regrid: bool = False
    """Go on with other workers, nodes or another grid: the same images in the same updates, equal within rounding."""


@dataclass
class RunConfig:
    """One run: where it writes, when it saves, when it stops."""

    dir: str = MISSING
    """The run folder; must not exist yet."""
    resume: str | None = None
    """Run folder to go on with, in place."""
    stop_after_epochs: int | None = None
    """End early, after so many epochs of the run; the schedule is unchanged."""
    stop_after_updates: int | None = None
    """End early, after so many updates of the run; the schedule is unchanged."""
    checkpoint_every_updates: int = MISSING
    """Updates between two checkpoints; one more is written at the end."""
    checkpoint_every_minutes: float | None = None
    """Minutes between two checkpoints, where updates alone would leave more; null: only updates count."""
    keep_checkpoints: int = MISSING
    """Newest checkpoints to keep."""
    validate_every_epochs: int = MISSING
    """Epochs between two validations; the last epoch is always validated. 0: only the last."""
    agree_every_updates: int = MISSING
    """Updates between two points where workers average batch-norm statistics, add up losses and look for a request
    to stop. The end of an epoch is one too."""
    slow_update_times: float | None = 5.0
    """An update that takes so many times the median of those before is told of, with the slowest worker; null: none."""
    stop_after_lost_loss: int | None = 50
    """Updates in a row whose loss is no number, after which the run ends; null: it goes on."""
    log_every_s: float = 5.0
    """Seconds between two progress lines in a log."""
    tensorboard: bool = True
    """Write events/ for TensorBoard, at agreements, on the first rank."""
    profile: int = 0
    """Trace so many updates of the attempt on the first rank, after a few to warm up, into profile/; 0: none."""


@dataclass
class Config:
    """A whole run."""

    experiment: str = MISSING
    """Name of the experiment, as in conf/exp/."""
    seed: int = 0
    """Same seed, same bits: weights, order, windows."""
    scale: int | None = None
    """The scale model: one virtual worker stands for so many GPUs, and the data set shrinks alike; with fewer GPUs the
    batch too. null: full size."""
    workers: int | None = None
    """Real workers; null: as many as virtual ones."""
    nodes: int | None = None
    """Nodes of the site; real workers = nodes * site.workers_per_node."""
    grid: RealGridConfig = field(default_factory=RealGridConfig)
    """Grid of the real workers."""
    recipe: RecipeConfig = field(default_factory=RecipeConfig)
    """The run as its paper had it."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser and schedule."""
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    """Numbers in flight."""
    allreduce: AllReduceConfig = field(default_factory=AllReduceConfig)
    """How gradients are averaged."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The network."""
    data: DataConfig = field(default_factory=DataConfig)
    """The images."""
    site: SiteConfig = field(default_factory=SiteConfig)
    """The machine."""
    container: ContainerConfig = field(default_factory=ContainerConfig)
    """The image that ranks run in."""
    resume: ResumeConfig = field(default_factory=ResumeConfig)
    """How it is gone on with."""
    run: RunConfig = field(default_factory=RunConfig)
    """Where it writes, when it saves, when it stops."""


def keys(schema: Any = Config, prefix: str = "") -> list[str]:
    """Every dotted key of the schema, groups included, in the order of this file."""
    found: list[str] = []
    hints = get_type_hints(schema)
    for entry in fields(schema):
        found.append(prefix + entry.name)
        for kind in (hints[entry.name], *get_args(hints[entry.name])):  # a dataclass, or one that may be null
            if is_dataclass(kind) and get_origin(hints[entry.name]) is not list:
                found.extend(keys(kind, f"{prefix}{entry.name}."))
    return found


@cache
def keys_of_lists() -> tuple[str, ...]:
    """The dotted keys whose value is a list."""
    return tuple(_lists(Config))


def _lists(schema: Any, prefix: str = "") -> Iterator[str]:
    for name, kind in get_type_hints(schema).items():
        if get_origin(kind) is list:
            yield f"{prefix}{name}"
        elif is_dataclass(kind):
            yield from _lists(kind, f"{prefix}{name}.")
