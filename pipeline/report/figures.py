"""Figures of tables in words: percent, times, brackets. Pure; torch-free."""

from pipeline.estimate.run import Bracket


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} %"


def seconds(value: float | None) -> str:
    """`224 s`, `6.6 min`, `29 h`: in the unit that a reader would choose, three digits."""
    if value is None:
        return ""
    for size, unit in ((3600.0, "h"), (600.0, "min")):
        if value >= size:
            return f"{value / (60.0 if unit == 'min' else size):.3g} {unit}"
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def between(bracket: Bracket | None, unit: str) -> str:
    """`74.4 … 89.0 s`."""
    if bracket is None:
        return ""
    digits = 0 if bracket.high >= 1000 else 1
    return f"{bracket.low:,.{digits}f} … {bracket.high:,.{digits}f} {unit}"
