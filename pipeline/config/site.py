"""What a cluster is: the dataclasses of conf/site/ and conf/container/, one docstring a field.

Torch-free.
"""

from dataclasses import dataclass, field

from omegaconf import MISSING


@dataclass
class LinkConfig:
    """One level of a network."""

    gb_per_s: float = MISSING
    """Rate in one direction, 1e9 bytes a second."""
    latency_us: float = MISSING
    """What a message takes beside its bytes, in microseconds."""


@dataclass
class NetworkConfig:
    """The network that the all-reduces choose their chunks by; full duplex."""

    worker: LinkConfig = field(default_factory=LinkConfig)
    """A worker's port to the others of its node."""
    node: LinkConfig = field(default_factory=LinkConfig)
    """A node's uplink."""
    rack: LinkConfig | None = None
    """A rack's uplink; null: one switch joins all nodes."""
    nodes_per_rack: int | None = None
    """Nodes in a rack; null: one switch joins all nodes."""


@dataclass
class SpeedConfig:
    """What one worker computes by itself, without averaging and with its images at hand: for the estimate."""

    precision: str = MISSING
    """Arithmetic: `fp32`, `fp16` or `bf16`."""
    batch: int = MISSING
    """Images in a micro-batch."""
    images_per_s: float = MISSING
    """Forward, backward and update."""
    model: str = "resnet50"
    """`resnet50` or `small_resnet`."""
    image_size: int = 224
    """Pixels a side."""


@dataclass
class HardwareConfig:
    """What nodes are made of beside their network, for the estimate alone: no run reads it."""

    speeds: list[SpeedConfig] = field(default_factory=list)
    """Measured, for one precision or several and one batch or several; empty: nothing is estimated."""
    memory_gb: float | None = None
    """A node's memory, 1e9 bytes; null: not known, taken as enough for all samples."""
    read_gb_per_s: float | None = None
    """What a node reads samples at when they are staged, 1e9 bytes a second; null: not known, staging is left out."""
    start_s: float | None = None
    """From the job's start to the first sample read; null: not known, left out."""


@dataclass
class LimitsConfig:
    """What the site grants one job without a reservation."""

    nodes: int | None = None
    """Most nodes; null: not known."""
    hours: float | None = None
    """Longest wall time in hours; null: not known."""


@dataclass
class RequeueConfig:
    """How a run that was saved before the end of its wall time starts again."""

    how: str = "in_job"
    """`in_job`: the ending job asks for the new start (SLURM's requeue, Grid Engine's exit code 99, a new qsub on PBS).
    `chain`: `max` dependent jobs are submitted ahead, for sites whose nodes may not submit."""
    max: int = 3
    """New starts of a run, counted in its folder; 0: none."""
    lead_s: int = 120
    """Seconds before the end of the wall time at which ranks are asked to save."""


@dataclass
class SiteConfig:
    """A cluster's profile."""

    name: str = MISSING
    """For headers; `local` is this machine."""
    scheduler: str = MISSING
    """`local` (no scheduler: mpirun here), `slurm`, `pbs` or `gridengine`."""

    workers_per_node: int | None = None
    """GPUs a node, one worker each; null: one node takes every worker."""
    threads_per_worker: int = MISSING
    """CPU threads of torch in a worker. A value, never the core count: it changes bits."""
    decoder_threads: int = 1
    """CPU threads that decode images in a worker: its share of the node's cores, less one or two for the rest."""
    gpus_per_node: int | None = None
    """GPUs to ask the scheduler for by name on each node; null: they come with the node."""
    cores_per_node: int | None = None
    """Cores to ask the scheduler for on each node; null: they come with the node."""

    account: str | None = MISSING
    """Group, project or account that pays (GROUP=); null: none is needed."""
    queue: str | None = None
    """Queue or partition; null: the site's default."""
    reservation: str | None = None
    """A reservation's id. With one, the site's limits do not hold."""
    wall_time: str = "1:00:00"
    """Wall time of one job: H:MM:SS, D-HH:MM:SS or seconds. `auto` becomes one that fits the estimate of the run when
    it is composed, an hour where nothing can be estimated."""
    node_resource: str | None = None
    """Grid Engine: the resource that is one whole node, as ABCI's rt_F; null: parallel_environment."""
    parallel_environment: str | None = None
    """Grid Engine: name of the parallel environment that gives a job slots on several nodes."""
    classic_nodes: bool = False
    """PBS: ask by nodes=N:ppn=W, for servers from before select."""
    scatter: bool = False
    """PBS: ask for each chunk on a node of its own, which a queue of whole nodes does by itself."""
    account_option: str | None = None
    """The scheduler's option for the account; null: --account (SLURM), -P (PBS and Grid Engine). ABCI's was -g."""
    extra_directives: list[str] = field(default_factory=list)
    """More options for the scheduler, one a line as in a script: `--constraint=h200`, `-l place=scatter`."""
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    """What one job may ask for."""
    requeue: RequeueConfig = field(default_factory=RequeueConfig)
    """How a run goes on after the end of its wall time."""

    modules: list[str] = field(default_factory=list)
    """Environment modules to load, in order."""
    require: list[str] = field(default_factory=list)
    """Variables that must have a value in the job before anything runs."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables for the ranks, as NCCL_DEBUG: INFO. Never a secret: it stands in the script."""
    launcher: str = "mpirun"
    """`mpirun`, or `srun` (SLURM with PMIx)."""
    launcher_path: str | None = None
    """The launcher's program; null: mpirun beside the Python that submits where there is no container, else on PATH."""
    launcher_options: list[str] = field(default_factory=list)
    """More words for the launcher, each as it is: [--mca, pml, ucx]."""
    launch_agent: str | None = None
    """How mpirun starts its daemons on other nodes: `qrsh` (Grid Engine) and `pbs_tmrsh` (PBS), both wrapped, or a
    command as `ssh`; null: the launcher knows."""
    python: str | None = None
    """The ranks' Python; null: the one that submits, in a container `python3`."""
    binding: str = "none"
    """CPUs of a rank: `none`, `numa` (those of its GPU's NUMA domain) or `core` (its own share of them)."""
    start_timeout_s: int = 600
    """Seconds that ranks may take to start; then the job ends and names the stage at which they stand."""

    backend: str = MISSING
    """torch.distributed backend: `gloo` or `nccl`."""
    device: str = MISSING
    """`cpu` or `cuda`."""
    local_storage: str | None = None
    """Name of the variable that holds the job's folder on a node's own disk, as PBS_LOCALDIR."""
    interface: str | None = None
    """Network interface for sockets between nodes, as `ib0`; null: what the host name resolves to."""
    cards: list[str] = field(default_factory=list)
    """InfiniBand cards that NCCL may use, as mlx5_0; empty: its own choice."""
    require_ib: bool = False
    """End a run that would talk between nodes by sockets instead of InfiniBand."""
    host_suffix: str = ""
    """What a node's name needs to resolve from other nodes, as `.cluster.example`."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Rates and latencies."""
    hardware: HardwareConfig = field(default_factory=HardwareConfig)
    """Speeds, for `make estimate`."""


@dataclass
class ContainerConfig:
    """The image that ranks run in."""

    name: str = "none"
    """`none`, `apptainer`, `singularity` or `docker`."""
    image: str | None = MISSING
    """The image: a SIF file's path, or docker's name of it (IMAGE=)."""
    binds: list[str] = field(default_factory=list)
    """Host paths to see inside, as PATH or PATH:INSIDE. Data, run folder, repository, the node's disk and /dev/shm are
    bound anyway."""
    options: list[str] = field(default_factory=list)
    """More words for `exec` or `run`, each as it is."""
    clean_env: bool = False
    """Start from an empty environment inside; what ranks need is passed on by name."""
    mount_home: bool = False
    """See the home folder inside."""
    opal_prefix: str | None = None
    """OPAL_PREFIX inside, for an image whose Open MPI was moved; null: unset, whatever the host's modules say."""
    pmix_prefix: str | None = None
    """PMIX_PREFIX inside; null: unset."""
