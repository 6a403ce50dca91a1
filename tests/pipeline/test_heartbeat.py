"""Heartbeats of living workers: what each says, who is told of a failure, and the end of one that cannot end itself."""

import os
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from pipeline.allreduce.contract import CommunicationError
from pipeline.errors import LostWorkerError, UserError
from pipeline.heartbeat import Heartbeat
from pipeline.run_folder import EXIT_FAILED
from pipeline.silence import Silence
from tests.worlds import run_world

TIMEOUT_S = 2.0


@pytest.fixture
def three() -> Iterator[list[Heartbeat]]:
    """Three workers in one process, called 10, 11 and 12 by their launcher."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=30))
    found = [Heartbeat(store, rank, 3, TIMEOUT_S, launched_rank=10 + rank) for rank in range(3)]
    yield found
    for one in found:
        one.close()


def fail(heartbeat: Heartbeat, name: str, words: str) -> None:
    """A collective of this worker that fails with `words`."""
    with heartbeat.collective(name):
        raise RuntimeError(words)


def test_a_collective_that_fails_is_named_with_the_backends_first_words(three: list[Heartbeat]) -> None:
    words = "[/a/file.cc:78] Timed out waiting 2000ms. This is typically caused by something\nmore"
    with pytest.raises(CommunicationError, match=r"^agreement: Timed out waiting 2000ms$"):
        fail(three[0], "agreement", words)


def test_the_late_one_is_named_with_what_it_does_and_all_hear_the_same_line(three: list[Heartbeat]) -> None:
    three[1].at("computing", update=12)
    for one in (three[0], three[2]):
        with pytest.raises(CommunicationError):
            fail(one, "agreement", "Timed out")
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda one: one.explain("agreement: Timed out"), (three[0], three[2]))
    assert first == second
    late = rf"rank 11 \(on {os.uname().nodename}\) keeps the others waiting: update 12, computing for \d+ s"
    assert re.fullmatch(rf"{late}; rank 1[02] was in agreement for \d+ s", first)


def test_a_failure_between_a_beat_and_its_look_is_told_with_what_failed(
    three: list[Heartbeat], monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, failed, look = threading.Event(), threading.Event(), three[0]._look

    def look_late() -> None:
        looking.set()
        assert failed.wait(10)
        look()

    monkeypatch.setattr(three[0], "_look", look_late)
    assert looking.wait(10)  # its beat says that it starts
    with pytest.raises(CommunicationError):
        fail(three[0], "agreement", "Timed out")
    with ThreadPoolExecutor() as pool:
        line = pool.submit(three[0].explain, "agreement: Timed out")
        while three[0]._error is None:
            time.sleep(0.01)
        failed.set()
        assert re.search(r"; rank 10 was in agreement for \d+ s$", line.result())


def test_a_silent_one_ends_the_others_though_nothing_of_theirs_has_failed(
    three: list[Heartbeat], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a node is cut off while the others wait in a collective of MPI, which has no time-out."""
    notes: list[tuple[str, str]] = []
    codes: list[int] = []
    monkeypatch.setattr("pipeline.heartbeat.os._exit", codes.append)
    monkeypatch.setattr(three[0], "_silence", Silence(1.0))
    monkeypatch.setattr(three[1], "_tell", lambda: None)
    three[0].at("reading the data")
    with three[2].watching(lambda line, kind: notes.append((line, kind))):
        ends_s = time.monotonic() + 60
        while not codes and time.monotonic() < ends_s:
            time.sleep(0.1)
    assert codes == [EXIT_FAILED]
    ((line, kind),) = notes
    assert kind == "fault"
    told = rf"rank 11 \(on {os.uname().nodename}\) does not answer: last heard of in starting for \d+ s"
    assert re.fullmatch(rf"{told}; rank 10 was in reading the data for \d+ s", line)


def test_where_the_store_never_answers_one_that_does_nothing_new_ends_and_one_that_goes_on_does_not(
    three: list[Heartbeat], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    monkeypatch.setattr("pipeline.heartbeat.os._exit", codes.append)
    monkeypatch.setattr(three[2], "_limit_s", 1.0)

    with three[2].watching(lambda line, kind: None):  # noqa: ARG005
        monkeypatch.setattr(three[2], "_look", threading.Event().wait)
        busy_until_s = time.monotonic() + 2.0
        while time.monotonic() < busy_until_s:
            three[2].at("computing")
            time.sleep(0.1)
        assert codes == []
        while not codes and time.monotonic() < busy_until_s + 60:
            time.sleep(0.1)
    assert codes == [EXIT_FAILED]


def test_one_that_ends_with_an_error_tells_the_others_why(three: list[Heartbeat]) -> None:
    with pytest.raises(UserError), three[1].watching(lambda line, kind: None):  # noqa: ARG005
        raise UserError("sample train-7-0007 cannot be decoded")
    line = three[2].explain("reduce-scatter, row: Connection closed by peer")
    assert line == f"rank 11 (on {os.uname().nodename}) has ended: sample train-7-0007 cannot be decoded"


def test_a_failed_collective_ends_in_the_line_and_what_was_met_is_noted_before(three: list[Heartbeat]) -> None:
    notes: list[tuple[str, str]] = []
    three[1].close("its node was taken away")
    three[0].at("ending", update=12)
    with (
        pytest.raises(LostWorkerError, match=r"^rank 11 \(on .*\) has ended: its node was taken away$"),
        three[0].watching(lambda line, kind: notes.append((line, kind))),
    ):
        fail(three[0], "last barrier", "Connection closed by peer")
    assert notes == [("update 12, last barrier for 0 s: Connection closed by peer", "effect")]


def test_another_kind_of_error_passes_a_collective_as_it_is(three: list[Heartbeat]) -> None:
    with pytest.raises(UserError, match="mine"), three[0].collective("agreement"):
        raise UserError("mine")


def block(rank: int, size: int, store: dist.Store, notes: Path) -> str:
    """Rank 1 is blocked for ever in what it calls an agreement; rank 0 meets a failure there, and waits for its end."""
    heartbeat = Heartbeat(store, rank, size, TIMEOUT_S)

    def note(line: str, kind: str) -> None:
        (notes / kind).write_text(line)

    if rank == 1:
        with heartbeat.watching(note):
            (notes / "pid").write_text(str(os.getpid()))
            with heartbeat.collective("agreement"):
                threading.Event().wait()
    with pytest.raises(CommunicationError):
        fail(heartbeat, "agreement", "Timed out")
    line = heartbeat.explain("agreement: Timed out")
    while not has_ended(int((notes / "pid").read_text())):
        time.sleep(0.05)
    return line


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_one_that_is_blocked_for_ever_is_ended_with_the_line(tmp_path: Path) -> None:
    line, _ = run_world(2, block, tmp_path, lost=[1])
    assert (tmp_path / "fault").read_text() == line
