"""The model beside what `make bench-network` measured on this project's machine (README, Speed), within 15 %."""

import pytest

from bench.modelled import modelled_s
from bench.rows import Row


def row(algorithm: str, size_bytes: int, chunk_bytes: int, rate_bit_per_s: float, delay_s: float) -> Row:
    return Row(
        algorithm=algorithm, nodes=4, workers_per_node=4, rate_bit_per_s=rate_bit_per_s, delay_s=delay_s, dtype="fp32",
        size_bytes=size_bytes, repeats=3, time_s=0.0, bound_s=0.0, link_bytes=None, cpu_share=0.0, theory_bytes=None,
        grid="4x4", chunk_bytes=chunk_bytes, sweep_s={}, wrong=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("algorithm", "size_bytes", "chunks", "times_the_bound"),
    [
        ("torus", 10_000_000, 8, 1.111), ("torus", 50_000_000, 16, 1.087),
        ("ring", 10_000_000, 1, 1.363), ("ring", 50_000_000, 1, 1.362),
    ],
)  # fmt: skip
def test_it_is_what_was_measured_at_100_megabit(
    algorithm: str, size_bytes: int, chunks: int, times_the_bound: float
) -> None:
    measured_s = times_the_bound * 1.5 * size_bytes / 12.5e6
    assert modelled_s(row(algorithm, size_bytes, size_bytes // chunks, 100e6, 0.0)) == pytest.approx(
        measured_s, rel=0.15
    )


def test_the_torus_is_what_was_measured_at_ten_milliseconds() -> None:
    assert modelled_s(row("torus", 400_000, 400_000, 200e6, 0.005)) == pytest.approx(0.094, rel=0.15)
