"""The checks of what a plan is worked out from: sizes, stages and grid. Torch-free.

They hold for a stored configuration too, since a plan is made of it: one of 10^30 workers would take years.
"""

from pipeline.config.schema import Config
from pipeline.errors import UserError

MOST_WORKERS = 10**6
MOST_EPOCHS = 10**6
MOST_BATCH = 10**6
"""Images of one worker."""
MOST_IMAGES = 10**12


def check_recipe(config: Config) -> None:
    """Raise UserError for the first thing that no plan can be made of."""
    check_sizes(config)
    check_stages(config)
    check_grid(config)


def check_sizes(config: Config) -> None:
    """Raise UserError for a number of workers, epochs or images that is below 1, or beyond any machine."""
    recipe = config.recipe
    sizes = {
        "recipe.workers": (recipe.workers, MOST_WORKERS),
        "recipe.grid.vertical": (recipe.grid.vertical, MOST_WORKERS),
        "recipe.grid.horizontal": (recipe.grid.horizontal, MOST_WORKERS),
        "recipe.epochs": (recipe.epochs, MOST_EPOCHS),
        "recipe.images": (recipe.images, MOST_IMAGES),
        "scale": (config.scale, MOST_WORKERS),
        "workers": (config.workers, MOST_WORKERS),
        "nodes": (config.nodes, MOST_WORKERS),
        "site.workers_per_node": (config.site.workers_per_node, MOST_WORKERS),
        "grid.vertical": (config.grid.vertical, MOST_WORKERS),
        "grid.horizontal": (config.grid.horizontal, MOST_WORKERS),
        "data.train_samples": (config.data.train_samples, MOST_IMAGES),
        "recipe.smallest_scale_batch": (recipe.smallest_scale_batch, MOST_BATCH),
        "optim.lr_reference_batch": (config.optim.lr_reference_batch, MOST_IMAGES),
        "optim.momentum_reference_batch": (config.optim.momentum_reference_batch, MOST_IMAGES),
    }
    for key, (found, most) in sizes.items():
        if found is not None and found < 1:
            raise UserError(f"{key}={found}: must be at least 1")
        if found is not None and found > most:
            raise UserError(f"{key}={found}: must be at most {most}")


def check_stages(config: Config) -> None:
    """Raise UserError for stages that do not follow one another to the run's end, or whose batch is none."""
    stages, epochs = config.recipe.stages, config.recipe.epochs
    starts = [stage.start_epoch for stage in stages]
    if not starts or starts[0] != 0 or starts != sorted(set(starts)) or starts[-1] >= epochs:
        raise UserError(
            f"recipe.stages start at epochs {starts}: the first starts at 0, each later one after the one before it, "
            f"the last before the end of the run ({epochs})"
        )
    for stage in stages:
        if stage.per_worker_batch < 1:
            raise UserError(f"recipe.stages: per_worker_batch={stage.per_worker_batch}: must be at least 1")
        if stage.per_worker_batch > MOST_BATCH:
            raise UserError(f"recipe.stages: per_worker_batch={stage.per_worker_batch}: must be at most {MOST_BATCH}")
        batch = stage.per_worker_batch * config.recipe.workers
        reference = config.optim.momentum_reference_batch
        smallest = 0 if reference is None else (1 - config.optim.momentum) * reference
        if batch < smallest:
            raise UserError(
                f"momentum would be below 0 at a total batch of {batch}: optim.momentum_reference_batch={reference} "
                f"with optim.momentum={config.optim.momentum:g} needs at least {smallest:g}"
            )


def check_grid(config: Config) -> None:
    """Raise UserError where the recipe's grid has not its workers."""
    recipe = config.recipe
    if recipe.grid.vertical * recipe.grid.horizontal != recipe.workers:
        raise UserError(
            f"recipe.grid is {recipe.grid.vertical}x{recipe.grid.horizontal} = "
            f"{recipe.grid.vertical * recipe.grid.horizontal} workers; recipe.workers is {recipe.workers}"
        )
