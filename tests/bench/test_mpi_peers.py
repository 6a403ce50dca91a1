"""What Open MPI's all-reduces are measured against."""

import pytest

from bench.mpi_peers import bound_s


def test_the_bound_is_what_the_links_carry() -> None:
    # 4 hosts, 50 MB, 100 Mbit/s: each link sends 2 * 3/4 * 50 MB = 75 MB, at 12.5 MB/s.
    assert bound_s(4, 50_000_000, 100e6) == pytest.approx(6.0)
    assert bound_s(1, 50_000_000, 100e6) == 0.0
    assert bound_s(4, 50_000_000, None) is None
