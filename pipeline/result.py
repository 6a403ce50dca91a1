"""result.json: what came of a run. Torch-free."""

from typing import TYPE_CHECKING, Any

from pipeline.config import Config, Plan
from pipeline.config.plan import to_scale
from pipeline.metrics import Totals

if TYPE_CHECKING:
    from pipeline.trainer import Ending


def result(config: Config, plan: Plan, ending: "Ending", totals: Totals, all_reduce: str) -> dict[str, Any]:
    """result.json of an attempt that was not asked to stop; `totals` over all attempts. all_reduce: what ran."""
    return {
        "experiment": config.experiment,
        "system": config.recipe.system,
        "scale_model": config.scale is not None,
        "to_scale": to_scale(config),
        "gpus": config.recipe.workers,
        "workers": plan.workers,
        "virtual_workers": plan.virtual_workers,
        "grid": {"vertical": plan.grid.vertical, "horizontal": plan.grid.horizontal},
        "all_reduce": all_reduce,
        "seed": config.seed,
        "complete": ending.update == plan.updates,
        "updates": ending.update,
        "updates_by_stage": plan.updates_by_stage(ending.update),
        "skipped_updates": totals.skipped_updates,
        "replaced_samples": totals.replaced_samples,
        "top1": ending.top1,
        "validation_images": ending.validation_images,
        "images": totals.images,
        "wall_time_s": totals.wall_time_s,
        "loop_time_s": totals.loop_time_s,
        "images_per_s": totals.images / totals.loop_time_s if totals.loop_time_s else 0.0,
        "communication_share": totals.communication_s / totals.loop_time_s if totals.loop_time_s else 0.0,
        "data_share": totals.data_s / totals.loop_time_s if totals.loop_time_s else 0.0,
    }
