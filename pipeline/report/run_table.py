"""The table of the runs that a report was drawn from, each with its verdict. Pure; torch-free."""

from pipeline.report.figures import count, percent, seconds
from pipeline.report.material import Material
from pipeline.report.records import Record
from pipeline.report.table import Cell, Column, Table, made, row
from pipeline.report.verdict import verdict


def run_table(material: Material) -> Table:
    """A row a run, those without a result too."""
    names = ("run", "experiment", "state", "verdict", "why")
    of = [*(Column(name, is_number=False) for name in names), Column("workers"), Column("top-1"), Column("time")]
    rows = [_row(record, material) for record in material.records]
    note = "A verdict needs a whole run of an experiment as conf/exp/ has it. The time is that of all updates."
    return made("runs", "Runs", note, of, rows)


def _row(record: Record, material: Material) -> tuple[Cell, ...]:
    outcome, found = record.outcome, verdict(record, material.published)
    return row(
        record.folder, record.config.experiment, record.state, found.word, found.reason,
        count(record.plan.workers),
        percent(outcome.top1) if outcome else "",
        seconds(outcome.loop_time_s) if outcome else "",
    )  # fmt: skip
