"""The all-reduces on emulated hosts: what their nodes' links carry, wherever the launcher puts the ranks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from bench.emulated_hosts import EmulatedHosts, missing, mpirun_command
from bench.rows import TCP_HEADERS
from jobs import local

SIZE = 2_000_000
NODES, WORKERS_PER_NODE = 4, 2

lacking = missing(0.0)
pytestmark = pytest.mark.skipif(bool(lacking), reason=f"hosts cannot be emulated here: {lacking}")

SENT = {
    "torus": 2 * 3 / 4,  # columns of four nodes carry half of the bucket each, two of them on every link
    "ring": 2 * 7 / 8,  # of eight workers; one link of the ring leaves every node
    "hierarchical": 2 * 3 / 4,  # a ring of four masters
    "native": 2 * 7 / 8,  # gloo's ring
}
"""What a node's link sends, in units of the bucket, by the algorithms' own arithmetic."""


def measured(folder: Path, node_order: Literal["node by node", "round-robin"]) -> dict[str, dict[str, Any]]:
    """The rows of a bench on four hosts, by algorithm."""
    path = folder / "rows.json"
    with EmulatedHosts(NODES, 200e6) as hosts:
        words = ["--grid", "4x2", "--sizes", str(SIZE / 1e6), "--chunks", "0.5", "--repeats", "1", "--rate", "200e6"]
        bench = ["-m", "bench.allreduce", *words, "--algorithms", ",".join(SENT), "--interface", hosts.interface]
        command = mpirun_command(
            hosts, WORKERS_PER_NODE, [sys.executable, *bench, "--json", str(path)], node_order=node_order
        )
        done = subprocess.run(
            command,
            env=local.environment() | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return {row["algorithm"]: row for row in json.loads(path.read_text())}


@pytest.mark.parametrize("node_order", ["node by node", "round-robin"])
def test_links_carry_what_the_algorithm_says_however_ranks_were_dealt(
    tmp_path: Path, node_order: Literal["node by node", "round-robin"]
) -> None:
    rows = measured(tmp_path, node_order)
    for name, share in SENT.items():
        assert rows[name]["wrong"] == 0
        assert rows[name]["theory_bytes"] == pytest.approx(share * SIZE, rel=1e-6)
        # Acknowledgements of what comes in, and the barrier, are sent too.
        assert rows[name]["link_bytes"] == pytest.approx(share * SIZE * TCP_HEADERS, rel=0.06), name
