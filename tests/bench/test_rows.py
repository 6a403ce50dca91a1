"""The words of an all-reduce's table, and the bound."""

import pytest
from rich.console import Console

from bench.rows import TCP_HEADERS, Row, bound_s, print_rows, print_sweep


def row(algorithm: str = "torus", time_s: float = 6.6) -> Row:
    """50 MB between 4 nodes of 4 workers at 100 Mbit/s."""
    return Row(
        algorithm=algorithm,
        nodes=4,
        workers_per_node=4,
        rate_bit_per_s=100e6,
        delay_s=0.0,
        dtype="fp32",
        size_bytes=50_000_000,
        repeats=3,
        time_s=time_s,
        bound_s=6.0,
        link_bytes=78_000_000,
        cpu_share=0.25,
        theory_bytes=75_000_000,
        chunk_bytes=3_125_000,
        sweep_s={3_125_000: 6.7, 6_250_000: 7.0},
    )


def test_the_bound_is_what_the_links_carry() -> None:
    # 4 nodes, 50 MB, 100 Mbit/s: each link sends 2 * 3/4 * 50 MB = 75 MB, at 12.5 MB/s.
    assert bound_s(4, 50_000_000, 100e6) == pytest.approx(6.0)
    assert bound_s(1, 50_000_000, 100e6) is None
    assert bound_s(4, 50_000_000, None) is None


def test_bus_bandwidth_is_nccl_tests() -> None:
    # algbw * 2(n-1)/n with n = 16 workers.
    assert row().algbw == pytest.approx(50e6 / 6.6)
    assert row().busbw == pytest.approx(50e6 / 6.6 * 30 / 16)


def test_a_frame_of_1500_bytes_carries_1448_bytes_of_a_stream() -> None:
    # 14 bytes of Ethernet, 20 of IP, 20 of TCP and 12 of its time stamps.
    assert pytest.approx((1448 + 14 + 20 + 20 + 12) / 1448) == TCP_HEADERS


def test_json_has_what_follows_from_the_figures() -> None:
    found = row().as_json()
    assert found["times_bound"] == pytest.approx(1.1)
    assert found["workers"] == 16
    wanted = ("algorithm", "nodes", "workers_per_node", "rate_bit_per_s", "delay_s", "dtype", "size_bytes", "time_s")
    assert {*wanted, "bound_s", "link_bytes", "cpu_share"} <= set(found)


def test_the_table_puts_the_quickest_first() -> None:
    console = Console(width=200)
    with console.capture() as captured:
        print_rows(console, "4 nodes", [row("ring", 8.0), row("torus", 6.6)])
        print_sweep(console, [row()])
    text = captured.get()
    lines = text.splitlines()
    assert next(line for line in lines if "torus" in line or "ring" in line).split()[1] == "torus"
    assert "1.100" in text
    assert "3.12 (6700)  6.25 (7000)" in text
