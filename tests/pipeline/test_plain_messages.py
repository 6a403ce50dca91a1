"""What workers tell each other arrives as it was, and nothing that arrives is unpickled."""

import ast
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from pipeline.plain_messages import MOST_BYTES, gather, tell_all
from tests.worlds import run_world

TOLD: list[Any] = [None, 1_000_000, "torus", [{"data_s": 0.1, "own": 1e-300}, "knoten-ä"], "x" * (MOST_BYTES - 2)]

UNPICKLING = {
    "broadcast_object_list", "all_gather_object", "gather_object", "scatter_object_list", "send_object_list",
    "recv_object_list",
}  # fmt: skip
"""Of torch.distributed: its documentation warns that each of them unpickles what arrives."""


def exchange(rank: int, size: int, store: dist.Store) -> tuple[list[Any], list[Any]]:
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    return [tell_all(value if rank == 0 else "another") for value in TOLD], gather([rank, "host"])


def test_every_rank_has_what_the_first_one_told_and_what_each_gave() -> None:
    assert run_world(2, exchange) == [(TOLD, [[0, "host"], [1, "host"]])] * 2


def test_what_would_not_fit_is_not_cut_short() -> None:
    with pytest.raises(AssertionError, match="1027 bytes are no small message"):
        gather_alone("x" * 1025)


def gather_alone(value: str) -> list[Any]:
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        return gather(value)
    finally:
        dist.destroy_process_group()


def test_no_rank_unpickles_what_comes_by_torch_distributed() -> None:
    for path in (Path(__file__).parents[2] / "pipeline").rglob("*.py"):
        names = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        assert not names & UNPICKLING, path
