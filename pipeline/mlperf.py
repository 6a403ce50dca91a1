"""The run as MLPerf Training's rules log it: mlperf.log, open division, benchmark resnet, rule set 4.0.0.

It can be checked (`python -m mlperf_logging.compliance_checker --usage training --ruleset 4.0.0 FILE`) and compared,
and is no submission: its organisation and its platform say so, and where the run is a scale model they say that too.
Hyperparameters are this run's own, whatever their source. One run is one log, in however many attempts: every record
after run_start carries the update it belongs to (step_num), and a resumed attempt drops those beyond its checkpoint.
Torch-free; written by the first rank at agreements.
"""

import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlperf_logging.mllog import constants as keys
from mlperf_logging.mllog.mllog import MLLogger

from pipeline.config import Config, Plan
from pipeline.config.schema import OptimConfig
from pipeline.errors import UserError
from pipeline.metrics import UpdateLine, ValidationLine
from pipeline.report.console import scale_note
from pipeline.run_folder import write_atomically

TARGET_TOP1 = 75.9
"""Percent; MLPerf's target for resnet, from the rule set's closed_resnet.yaml. A run that ends below it is aborted."""

TOKEN = ":::MLLOG "  # noqa: S105 - how a line begins
SGD_MOMENTUM = "sgd_opt_momentum"
"""The rule set's name; the library has no constant for it."""
ENDED_EARLY = "ended_early"
"""In the metadata of an epoch_stop: the run ended inside the epoch, so one that goes on takes it back."""


class MlperfLog:
    """mlperf.log of a run, begun, or gone on with after update `update`."""

    def __init__(
        self, path: Path, config: Config, plan: Plan, *, update: int, began_s: float, validation_images: int
    ) -> None:
        """began_s: when the attempt began, seconds since 1970. validation_images: in the whole validation set."""
        self._config, self._plan = config, plan
        self._update, self._top1 = update, 0.0
        kept = _read(path, update) if update else []
        write_atomically(path, "".join(TOKEN + json.dumps(record) + "\n" for record in kept))
        self._in_epoch = [record["key"] for record in kept if "epoch_st" in record["key"]][-1:] == [keys.EPOCH_START]
        self._file = logging.FileHandler(path)
        logger = logging.Logger("mlperf", logging.INFO)  # an own one: nothing registered, nothing propagated
        logger.addHandler(self._file)
        self._log = MLLogger(logger, root_dir=str(Path(__file__).parents[1]))
        if kept:
            self._log.event("torus224_resumed", True, {keys.STEP_NUM: update})
        else:
            self._begin(began_s, validation_images)

    def updates(self, lines: Sequence[UpdateLine]) -> None:
        """Log the epochs that began or ended in these updates, at the time they did."""
        now = time.time()
        for line in lines:
            epoch, inside = self._plan.position(line.update - 1)
            ended_s = now - (lines[-1].time_s - line.time_s)
            about = {keys.EPOCH_NUM: epoch + 1, keys.STEP_NUM: line.update}
            if not self._in_epoch:
                self._log.start(keys.EPOCH_START, metadata=about, time_ms=_ms(ended_s - line.update_s))
            self._in_epoch = inside + 1 < self._plan.stage_at(epoch).updates_per_epoch
            if not self._in_epoch:
                self._log.end(keys.EPOCH_STOP, metadata=about, time_ms=_ms(ended_s))
            self._update = line.update

    def validated(self, line: ValidationLine) -> None:
        """Log a validation that has just ended."""
        now = time.time()
        about = {keys.EPOCH_NUM: line.epoch, keys.STEP_NUM: line.update}
        self._log.start(keys.EVAL_START, metadata=about, time_ms=_ms(now - line.took_s))
        self._log.event(keys.EVAL_ACCURACY, line.top1 / 100, about, time_ms=_ms(now))
        self._log.end(keys.EVAL_STOP, metadata=about, time_ms=_ms(now))
        self._top1 = line.top1

    def finish(self) -> None:
        """Log the end of the run: a success where it is complete and at the target, else aborted."""
        if self._in_epoch:
            epoch, _ = self._plan.position(self._update - 1)
            early = {keys.EPOCH_NUM: epoch + 1, keys.STEP_NUM: self._update, ENDED_EARLY: True}
            self._log.end(keys.EPOCH_STOP, metadata=early)
        succeeded = self._update == self._plan.updates and self._top1 >= TARGET_TOP1
        status = keys.SUCCESS if succeeded else keys.ABORTED
        about = {keys.STATUS: status, keys.STEP_NUM: self._update, "scale": scale_note(self._config)}
        self._log.end(keys.RUN_STOP, metadata=about)

    def close(self) -> None:
        self._file.close()

    def _begin(self, began_s: float, validation_images: int) -> None:
        """Everything up to run_start."""
        config, log = self._config, self._log
        note = scale_note(config)
        platform = f"{note}; {config.site.name}, {self._plan.workers} workers on {config.site.device}"
        log.event(keys.SUBMISSION_BENCHMARK, keys.RESNET)
        log.event(keys.SUBMISSION_DIVISION, keys.OPEN)
        log.event(keys.SUBMISSION_ORG, "Torus224, not a submission")
        log.event(keys.SUBMISSION_PLATFORM, platform)
        log.event(keys.SUBMISSION_STATUS, keys.RESEARCH)
        log.event("torus224_run", self._about())
        log.start(keys.INIT_START, time_ms=_ms(began_s))
        log.event(keys.CACHE_CLEAR, False, {"note": "page caches are left as they are"})
        log.event(keys.SEED, config.seed)
        log.event(keys.TRAIN_SAMPLES, self._plan.samples)
        log.event(keys.EVAL_SAMPLES, validation_images)
        for key, value in _hyperparameters(config, self._plan).items():
            log.event(key, value, self._by_stage(key))
        log.end(keys.INIT_STOP)
        log.start(keys.RUN_START)

    def _about(self) -> dict[str, Any]:
        config = self._config
        return {
            "scale_model": config.scale is not None,
            "scale": scale_note(config),
            "experiment": config.experiment,
            "recipe": config.recipe.system,
            "data": config.data.name,
            "model": config.model.name,
            "note": "Values are this run's own; conf/ says which of them the paper printed and which are rebuilt.",
        }

    def _by_stage(self, key: str) -> dict[str, Any] | None:
        """Metadata of what changes with the stages of a run."""
        names = {
            keys.GLOBAL_BATCH_SIZE: "total_batch",
            keys.LARS_OPT_MOMENTUM: "momentum",
            SGD_MOMENTUM: "momentum",
        }
        if key not in names:
            return None
        stages = self._plan.stages
        return {"by_stage": [{"first_epoch_num": s.start_epoch + 1, "value": getattr(s, names[key])} for s in stages]}


def _hyperparameters(config: Config, plan: Plan) -> dict[str, Any]:
    """MLPerf's names for the optimiser's values; of what changes with the stages, the first stage's."""
    optim, first = config.optim, plan.stages[0]
    found: dict[str, Any] = {
        keys.GLOBAL_BATCH_SIZE: first.total_batch,
        keys.GRADIENT_ACCUMULATION_STEPS: first.micro_batches,
        keys.OPT_NAME: optim.name,
    }
    return found | (_of_lars(optim, plan) if optim.name == "lars" else _of_others(optim, plan))


def _of_lars(optim: OptimConfig, plan: Plan) -> dict[str, Any]:
    return {
        keys.LARS_OPT_BASE_LEARNING_RATE: plan.peak_lr,
        keys.LARS_OPT_END_LR: 0.0,
        keys.LARS_OPT_LR_DECAY_POLY_POWER: optim.decay_power,
        keys.LARS_OPT_LR_DECAY_STEPS: plan.updates - _warmup_updates(optim, plan),
        keys.LARS_OPT_LEARNING_RATE_WARMUP_EPOCHS: optim.warmup_epochs,
        keys.LARS_EPSILON: optim.eps,
        keys.LARS_OPT_MOMENTUM: plan.stages[0].momentum,
        keys.LARS_OPT_WEIGHT_DECAY: optim.weight_decay,
        "lars_coefficient": optim.coefficient,
    }


def _of_others(optim: OptimConfig, plan: Plan) -> dict[str, Any]:
    """MLPerf's general names: those of its own SGD know a polynomial decay alone."""
    found = {
        keys.OPT_BASE_LR: plan.peak_lr,
        SGD_MOMENTUM: plan.stages[0].momentum,
        keys.OPT_WEIGHT_DECAY: optim.weight_decay,
        keys.OPT_LR_WARMUP_EPOCHS: optim.warmup_epochs,
        keys.OPT_LR_DECAY_SCHEDULE: optim.schedule,
    }
    if optim.schedule == "step":
        return found | {
            keys.OPT_LR_DECAY_BOUNDARY_EPOCHS: optim.milestones,
            keys.OPT_LR_DECAY_FACTOR: optim.decay_factor,
        }
    if optim.schedule == "slow_start":
        return found | {keys.OPT_LR_DECAY_BOUNDARY_EPOCHS: [level.start_epoch for level in optim.levels]}
    return found


def _warmup_updates(optim: OptimConfig, plan: Plan) -> int:
    return round(optim.warmup_epochs * plan.stages[0].updates_per_epoch)


def _read(path: Path, update: int) -> list[dict[str, Any]]:
    """The records that a run gone on with after `update` keeps: none beyond it, and none that says the run is over."""
    if not path.exists():
        return []
    try:
        whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        records = [json.loads(line.removeprefix(TOKEN)) for line in whole]
        return [record for record in records if _stays(record, update)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{path} is damaged: not every line is a record of MLPerf; mend or remove it") from None


def _stays(record: dict[str, Any], update: int) -> bool:
    about = record["metadata"]
    return about.get(keys.STEP_NUM, 0) <= update and record["key"] != keys.RUN_STOP and ENDED_EARLY not in about


def _ms(time_s: float) -> int:
    return int(1000 * time_s)
