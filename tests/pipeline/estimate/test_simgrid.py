"""Against SimGrid, live, where Debian's python3-simgrid is installed: it is no dependency."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pipeline.estimate.algorithms import estimate
from pipeline.estimate.network import Level, Network

SYSTEM_PYTHON = "/usr/bin/python3"
PROGRAM = Path(__file__).with_name("simgrid_all_reduce.py")
NETWORK = Network(Level(50e9, 1e-6), Level(25e9, 3e-6), Level(34 * 25e9 / 3, 5e-6), nodes_per_rack=34)
"""ABCI's V nodes; 144 workers are on 36 of them, in two racks."""


def has_simgrid() -> bool:
    try:
        return subprocess.run([SYSTEM_PYTHON, "-c", "import simgrid"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize(
    ("grid", "size_bytes"),
    [((1, 16), 51e6), ((1, 32), 51e6), ((4, 4), 51e6), ((8, 8), 51e6), ((16, 4), 1e6), ((18, 8), 51e6)],
)
def test_it_agrees_with_simgrid_run_live_within_two_percent(grid: tuple[int, int], size_bytes: float) -> None:
    if not has_simgrid():
        pytest.skip(f"{SYSTEM_PYTHON} has no simgrid; apt-get install python3-simgrid runs this test")
    levels = {
        "worker": NETWORK.worker,
        "node": NETWORK.node,
        "rack": NETWORK.rack or NETWORK.node,
    }
    case = {"grid": grid, "per_node": 4, "nodes_per_rack": NETWORK.nodes_per_rack, "size_bytes": size_bytes}
    case |= {name: (level.rate_bytes_per_s, level.latency_s) for name, level in levels.items()}
    command = [SYSTEM_PYTHON, str(PROGRAM), json.dumps(case)]
    simulated_s = float(subprocess.run(command, capture_output=True, check=True).stdout)
    ours = estimate("torus", size_bytes, grid, np.arange(grid[0] * grid[1]) // 4, NETWORK)
    assert ours.time_s == pytest.approx(simulated_s, rel=0.02)
