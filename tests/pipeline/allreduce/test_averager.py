"""A run's all-reduce from its configuration: `auto` measures, agrees and takes the quickest; chunks fit the buckets."""

from typing import Any

import pytest
import torch
import torch.distributed as dist

from pipeline.allreduce import averager
from pipeline.allreduce.averager import Averager
from pipeline.config.schema import AllReduceConfig
from pipeline.config.site import LinkConfig, NetworkConfig
from pipeline.estimate.algorithms import best_chunk_bytes
from pipeline.estimate.network import Level, Network
from tests.pipeline.allreduce.layouts import join
from tests.worlds import run_world

CANDIDATES = ["torus", "ring", "hierarchical", "multicolor", "tree", "native"]
NETWORK = NetworkConfig(worker=LinkConfig(12.5, 4.0), node=LinkConfig(1.0, 64.0))
SIZES = [1000, 0, 300_000]


def make(rank: int, store: dist.Store, **configuration: Any) -> Averager:
    """On a grid of 2x2 whose rows are nodes."""
    config = AllReduceConfig(bucket_mb=25, **configuration)
    return Averager(config, NETWORK, join(rank, store, (2, 2)), torch.device("cpu"))


def world() -> dist.ProcessGroup:
    assert dist.group.WORLD is not None
    return dist.group.WORLD


def measure(rank: int, store: dist.Store) -> Averager:
    """`auto` as it is, in a hurry."""
    averager.MEASURE_S = 0.01
    made = make(rank, store, name="auto", candidates=CANDIDATES)
    made.settle(SIZES, world(), None)
    return made


def measure_given_times(rank: int, store: dist.Store) -> str:
    """What `auto` takes where the first candidate takes 3 s, the second 1 s and the third 2 s."""
    times = iter([3.0, 3.0, 1.0, 1.0, 2.0, 2.0])  # each is measured once for how often, and then so often
    averager.seconds = lambda *_, **__: [next(times)]
    made = make(rank, store, name="auto", candidates=["torus", "tree", "ring"])
    made.settle(SIZES, world(), None)
    made.close()
    assert [one.median_s for one in made.measured] == [1.0, 2.0, 3.0]
    return made.name


def take_chosen(rank: int, store: dist.Store) -> tuple[str, int]:
    """The name and the number of measurements where `auto` took the tree when the run began."""
    made = make(rank, store, name="auto", candidates=CANDIDATES)
    made.settle(SIZES, world(), "tree")
    made.close()
    return made.name, len(made.measured)


def chunks(rank: int, store: dist.Store) -> dict[str, int]:
    """The largest chunk in bytes, by what is configured."""
    found = {}
    configured: dict[str, dict[str, Any]] = {
        "torus": {"name": "torus"},
        "torus, chunk_kb=64": {"name": "torus", "chunk_kb": 64},
        "native": {"name": "native"},
        "fp32": {"name": "ring", "wire": "fp32"},
    }
    for label, words in configured.items():
        made = make(rank, store, **words)
        made.settle(SIZES, world(), None)
        found[label] = made.chunk_bytes
        made.close()
    return found


def noted_sizes(rank: int, store: dist.Store) -> list[list[int]]:
    """Taken twice after two buckets, before the averager is settled."""
    made = make(rank, store, name="native")
    for size in (10, 0):
        made(torch.ones(size)).wait()
    taken = [made.take_sizes(), made.take_sizes()]
    made.close()
    return taken


def everything(rank: int, _: int, store: dist.Store) -> dict[str, Any]:
    measured = measure(rank, store)
    bucket = torch.full((10,), float(rank))
    measured(bucket).wait()
    measured(torch.ones(0)).wait()
    found = {
        "measured": [one.name for one in measured.measured],
        "times": [one.median_s for one in measured.measured],
        "description": measured.description(),
        "averaged": bucket.tolist(),
        "sizes": noted_sizes(rank, store),
        "settled": measured.take_sizes(),
        "chunks": chunks(rank, store),
        "chosen": take_chosen(rank, store),
        "given": measure_given_times(rank, store),
    }
    measured.close()
    return found


@pytest.fixture(scope="module")
def found() -> list[dict[str, Any]]:
    """What everything gave, by rank."""
    return run_world(4, everything)


def test_auto_measures_every_candidate_and_takes_the_quickest_the_same_on_all_workers(
    found: list[dict[str, Any]],
) -> None:
    assert sorted(found[0]["measured"]) == sorted(CANDIDATES)
    assert found[0]["times"] == sorted(found[0]["times"])
    assert min(found[0]["times"]) > 0
    assert all(of["measured"] == found[0]["measured"] and of["times"] == found[0]["times"] for of in found)
    assert found[0]["description"]["name"] == found[0]["measured"][0]


def test_of_three_the_one_that_takes_the_least_is_taken(found: list[dict[str, Any]]) -> None:
    assert {of["given"] for of in found} == {"tree"}


def test_what_it_took_averages(found: list[dict[str, Any]]) -> None:
    assert all(of["averaged"] == [1.5] * 10 for of in found)


def test_what_the_run_began_with_is_taken_without_measuring(found: list[dict[str, Any]]) -> None:
    assert all(of["chosen"] == ("tree", 0) for of in found)


def test_it_notes_the_sizes_of_buckets_since_they_were_last_asked_for(found: list[dict[str, Any]]) -> None:
    assert found[0]["sizes"] == [[10, 0], []]


def test_a_settled_averager_notes_nothing_more(found: list[dict[str, Any]]) -> None:
    assert found[0]["settled"] == []


def test_chunks_are_those_asked_for_else_those_of_the_model_for_the_largest_bucket(found: list[dict[str, Any]]) -> None:
    network = Network(worker=Level(12.5e9, 4e-6), node=Level(1e9, 64e-6))
    model = {
        (name, size): best_chunk_bytes(name, size, (2, 2), [0, 0, 1, 1], network)
        for name, size in (("torus", 600_000), ("ring", 1_200_000))
    }
    assert found[0]["chunks"] == {
        "torus": model["torus", 600_000],
        "torus, chunk_kb=64": 65_536,
        "native": 600_000,  # the backend cuts by itself
        "fp32": model["ring", 1_200_000],
    }


def test_its_description_says_what_runs_on_what(found: list[dict[str, Any]]) -> None:
    description = found[0]["description"]
    assert {key: description[key] for key in ("asked_for", "grid", "nodes", "wire", "bucket_bytes", "backend")} == {
        "asked_for": "auto",
        "grid": [2, 2],
        "nodes": [2, 2],
        "wire": "fp16",
        "bucket_bytes": [2000, 0, 600_000],
        "backend": "gloo",
    }
    assert description["warning"] == ""
    assert [list(row) for row in description["measured"]] == [["name", "median_s", "chunk_bytes"]] * len(CANDIDATES)
    assert set(description) == {
        "name", "asked_for", "grid", "nodes", "wire", "bucket_bytes", "chunk_bytes", "backend", "warning", "measured",
    }  # fmt: skip
