"""The runs of an experiment that stand for it in a table: alike in workers, site and data, seeds apart. Torch-free."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from pipeline.config import Plan
from pipeline.report.records import Outcome, Record
from pipeline.report.verdict import against


@dataclass(frozen=True)
class Group:
    """Runs of one experiment that differ in nothing but their seed, by folder."""

    records: tuple[Record, ...]

    @property
    def plan(self) -> Plan:
        return self.records[0].plan

    @property
    def outcomes(self) -> list[Outcome]:
        return [record.outcome for record in self.records if record.outcome is not None]

    @property
    def top1(self) -> float | None:
        """Mean, percent; None where none was validated."""
        found = [one.top1 for one in self.outcomes if one.top1 is not None]
        return fmean(found) if found else None

    @property
    def time_s(self) -> float:
        """Mean of the loop times."""
        return fmean(one.loop_time_s for one in self.outcomes)


def groups(records: Iterable[Record], *, scale_models: bool) -> dict[str, Group]:
    """The runs that stand for each experiment, at full size or as scale models; an experiment without any has none.

    Only whole runs count against which nothing stands. Of several kinds the one of most workers is taken, then the one
    of most runs.
    """
    kinds: defaultdict[str, defaultdict[tuple[int, str], list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if not against(record) and record.is_scale_model == scale_models:
            kinds[record.config.experiment][record.plan.workers, _alike(record)].append(record)
    return {
        experiment: Group(tuple(max(of.items(), key=lambda one: (one[0][0], len(one[1]), one[0]))[1]))
        for experiment, of in kinds.items()
    }


def _alike(record: Record) -> str:
    """What runs must have alike beside their recipe and workers to be put together."""
    config, averaging = record.config, record.config.allreduce
    return repr((
        config.site.name, config.scale, config.model, config.data, config.precision, str(record.plan.grid),
        averaging.name, averaging.wire,
    ))  # fmt: skip
