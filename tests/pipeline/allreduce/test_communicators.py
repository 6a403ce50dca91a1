"""Who is where: nodes of any sizes; and what a worker that goes leaves the others with."""

import gc
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pipeline.allreduce.chunks import CommunicationError
from pipeline.allreduce.communicators import Communicators
from pipeline.allreduce.hook import SCHEMES, Options, build
from tests.pipeline.allreduce.layouts import join
from tests.worlds import run_world


def test_every_rank_knows_its_node_whatever_the_nodes_sizes() -> None:
    communicators = Communicators(0, (2, 3), [[0], [1, 2], [3, 4, 5]], backend="gloo", timeout_s=1.0)
    assert communicators.size == 6
    assert communicators.node_of_rank == [0, 1, 1, 2, 2, 2]
    assert communicators.fresh().node_of_rank == communicators.node_of_rank


def go(rank: int, _: int, store: dist.Store) -> dict[str, Any]:
    """The second of two workers goes before it averages anything: what the first is told, by algorithm."""
    communicators = {name: join(rank, store, (2, 1)) for name in SCHEMES}
    options = Options(torch.float32, chunk_bytes=4096)
    all_reduces = {name: build(name, communicators[name], options, torch.device("cpu")) for name in SCHEMES}
    told = {}
    for name, all_reduce in reversed(all_reduces.items()) if rank == 0 else ():
        future = all_reduce(torch.ones(1000))
        store.set(f"started {name}", "")
        try:
            future.wait()
        except CommunicationError as error:
            told[name] = str(error)
        all_reduce.close()
    while all_reduces and rank == 1:
        name, all_reduce = all_reduces.popitem()
        store.wait([f"started {name}"])
        all_reduce.close()
        communicators.pop(name).close()
        del all_reduce
        gc.collect()  # a process group closes its connections when the last one lets go of it
    return told


PHASES = {
    "torus": "reduce-scatter, column",
    "ring": "reduce-scatter",
    "hierarchical": "reduce-scatter, masters",
    "hybrid": "reduce-scatter, masters",
    "multicolor": "reduce, tree",
    "tree": "reduce, tree",
    "native": "all-reduce",
}
"""The first phase in which two workers, each on a node of its own, need each other."""


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    return run_world(2, go)[0]


@pytest.mark.parametrize("name", SCHEMES)
def test_when_a_worker_goes_the_other_is_told_in_which_phase(told: dict[str, str], name: str) -> None:
    assert told[name].startswith(PHASES[name])
