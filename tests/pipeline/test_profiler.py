"""A trace names the phases of an update, on their threads, in a file that Perfetto reads."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pipeline.allreduce.chunks import ThreadEngine
from pipeline.allreduce.scheme import Lane, Phase, Scheme
from pipeline.profiler import Profiler, phase


@pytest.fixture
def engine() -> Iterator[ThreadEngine]:
    scheme = Scheme((Lane((Phase("halving", lambda chunk: chunk.mul_(0.5)),)),))
    engine = ThreadEngine(scheme, torch.float32, chunk_bytes=1024, pipelined=True, name="allreduce-test")
    yield engine
    engine.close()


def update(engine: ThreadEngine) -> None:
    """The phases of an update, with the engine that averages gradients in a thread of its own."""
    weights = torch.ones(8, 8, requires_grad=True)
    with phase("forward"):
        loss = (weights @ weights).sum()
    with phase("backward"):
        loss.backward()
    assert weights.grad is not None
    engine(weights.grad.view(-1)).wait()


def test_it_traces_so_many_updates_after_three_to_warm_up(tmp_path: Path, engine: ThreadEngine) -> None:
    profiler = Profiler(2, tmp_path / "profile", 100)
    for _ in range(9):
        update(engine)
        profiler.update_done()
    profiler.close()
    (path,) = (tmp_path / "profile").iterdir()
    assert path.name == "rank-0-updates-104-105.json"
    events = json.loads(path.read_text())["traceEvents"]
    threads = {}
    for name in ("forward", "backward", "all-reduce: halving"):
        found = [event for event in events if event.get("name") == name and event["ph"] == "X"]
        assert len(found) == 2, name
        assert all(event["dur"] > 0 for event in found)
        (threads[name],) = {event["tid"] for event in found}
    assert threads["forward"] == threads["backward"] != threads["all-reduce: halving"]


def test_a_run_that_ends_before_leaves_what_was_traced(tmp_path: Path, engine: ThreadEngine) -> None:
    profiler = Profiler(50, tmp_path / "profile", 0)
    for _ in range(4):
        update(engine)
        profiler.update_done()
    profiler.close()
    (path,) = (tmp_path / "profile").iterdir()
    assert path.name == "rank-0-updates-4-4.json"
    assert "traceEvents" in json.loads(path.read_text())


def test_without_a_trace_nothing_is_written_and_a_phase_is_nothing(tmp_path: Path) -> None:
    profiler = Profiler(0, tmp_path / "profile", 0)
    for _ in range(9):
        profiler.update_done()
    profiler.close()
    assert not (tmp_path / "profile").exists()
    assert phase("forward") is phase("backward")
