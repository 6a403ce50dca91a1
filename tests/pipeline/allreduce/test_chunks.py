"""The engine on threads: how buckets are cut, the order of chunks, working memory, and what an error does."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from pipeline.allreduce.chunks import CommunicationError, ThreadEngine, cut
from pipeline.allreduce.scheme import Lane, Phase, Scheme, share

SIZES = (0, 1, 2, 7, 8, 9, 1000, 1001)


def nothing(_: Tensor) -> None:
    """A phase that leaves a chunk as it is."""


def scheme(lanes: int = 1, multiple: int = 1) -> Scheme:
    """Lanes with an equal share each."""
    return Scheme(
        tuple(Lane((Phase("nothing", nothing),), share(index, lanes)) for index in range(lanes)), multiple=multiple
    )


@contextmanager
def engine(
    *phases: Callable[[Tensor], object], wire: torch.dtype = torch.float32, pipelined: bool = True, chunk: int = 4
) -> Iterator[ThreadEngine]:
    """An engine with these phases, called `phase 0` and so on; chunk: elements."""
    lane = Lane(tuple(Phase(f"phase {index}", phase) for index, phase in enumerate(phases)))
    made = ThreadEngine(Scheme((lane,)), wire, chunk_bytes=chunk * wire.itemsize, pipelined=pipelined, name="test")
    yield made
    made.close()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize("multiple", [1, 8])
def test_chunks_hold_every_element_once(size: int, lanes: int, multiple: int) -> None:
    chunks = cut(scheme(lanes, multiple), size, 100)
    assert sorted(element for chunk in chunks for element in range(chunk.first, chunk.last)) == list(range(size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("most", [1, 3, 100, 10_000])
def test_chunks_are_as_few_and_as_equal_as_their_largest_size_allows(size: int, most: int) -> None:
    lengths = [chunk.last - chunk.first for chunk in cut(scheme(), size, most)]
    assert len(lengths) == -(-size // most)
    assert max(lengths, default=0) <= most
    assert max(lengths, default=0) - min(lengths, default=0) <= 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("multiple", [2, 3, 64])
def test_padded_chunks_never_overlap_in_the_working_memory(size: int, multiple: int) -> None:
    chunks = sorted(cut(scheme(2, multiple), size, 100), key=lambda chunk: chunk.at)
    for chunk in chunks:
        assert chunk.length % multiple == 0
        assert 0 <= chunk.length - (chunk.last - chunk.first) < multiple
    for before, after in pairwise(chunks):
        assert before.at + before.length <= after.at


def test_a_lanes_chunks_lie_in_its_part_and_lanes_take_turns() -> None:
    # Ten elements in two lanes, at most two a chunk: 0-4 as 1, 2, 2 and 5-9 alike.
    chunks = cut(scheme(2), 10, 2)
    assert [(chunk.lane, chunk.first, chunk.last) for chunk in chunks] == [
        (0, 0, 1), (1, 5, 6), (0, 1, 3), (1, 6, 8), (0, 3, 5), (1, 8, 10),
    ]  # fmt: skip


def test_without_padding_a_chunk_lies_where_it_lies_in_the_bucket() -> None:
    assert all((chunk.at, chunk.length) == (chunk.first, chunk.last - chunk.first) for chunk in cut(scheme(2), 99, 8))


def test_a_bucket_of_nothing_is_done_at_once() -> None:
    with engine(nothing) as averaging:
        assert averaging(torch.empty(0)).wait().numel() == 0


@pytest.mark.parametrize("pipelined", [True, False])
def test_chunks_and_buckets_go_through_every_phase_in_the_order_they_came(pipelined: bool) -> None:
    seen: list[list[float]] = [[], [], []]
    phases = [lambda chunk, into=into: into.append(chunk[0].item()) for into in seen]
    with engine(*phases, pipelined=pipelined) as averaging:
        futures = [averaging(torch.arange(8.0) + 8 * bucket) for bucket in range(3)]  # two chunks of four each
        for future in futures:
            future.wait()
    assert seen == [[0.0, 4.0, 8.0, 12.0, 16.0, 20.0]] * 3


def test_one_chunk_is_in_a_phase_while_the_next_is_in_the_one_before() -> None:
    both = threading.Barrier(2, timeout=60)  # passed only by two phases at a time

    def meet(chunk: Tensor, when: tuple[float, ...]) -> None:
        if chunk[0].item() in when:
            both.wait()

    with engine(lambda chunk: meet(chunk, (4.0,)), lambda chunk: meet(chunk, (0.0,))) as averaging:
        averaging(torch.arange(8.0)).wait()
    assert both.n_waiting == 0


def test_without_threads_for_each_phase_a_chunk_is_through_before_the_next_begins() -> None:
    seen: list[str] = []
    phases = [lambda chunk, name=name: seen.append(f"{name}{chunk[0].item():.0f}") for name in "ab"]
    with engine(*phases, pipelined=False) as averaging:
        averaging(torch.arange(8.0)).wait()
    assert seen == ["a0", "b0", "a4", "b4"]


def test_a_bucket_of_the_wires_type_is_worked_on_in_place() -> None:
    bucket = torch.ones(10, dtype=torch.float16)
    addresses = []
    with engine(lambda chunk: addresses.append(chunk.data_ptr()), wire=torch.float16) as averaging:
        assert averaging(bucket).wait() is bucket
    assert addresses == [bucket[first:].data_ptr() for first in (0, 3, 6)]


def test_another_type_is_rounded_to_the_wires_and_comes_back_in_its_own() -> None:
    bucket = torch.tensor([1.0, 1.0 + 2**-12])  # the second is halfway between one and the next fp16 number
    with engine(lambda chunk: chunk.mul_(3), wire=torch.float16) as averaging:
        assert averaging(bucket).wait().tolist() == [3.0, 3.0]
    assert bucket.dtype == torch.float32


def test_buckets_in_flight_do_not_share_working_memory_and_later_ones_take_it_over() -> None:
    gate = threading.Event()
    addresses: list[int] = []

    def wait(chunk: Tensor) -> None:
        addresses.append(chunk.data_ptr())
        gate.wait(60)

    with engine(wait, wire=torch.float16, chunk=100) as averaging:
        buckets = [torch.full((10,), float(number)) for number in range(5)]
        futures = [averaging(bucket) for bucket in buckets[:3]]  # all in flight: none is done before the gate opens
        gate.set()
        for future in futures:
            future.wait()
        for bucket in buckets[3:]:
            averaging(bucket).wait()
    assert len(set(addresses[:3])) == 3
    assert set(addresses[3:]) <= set(addresses[:3])
    assert [bucket.tolist() for bucket in buckets] == [[float(number)] * 10 for number in range(5)]


def test_padding_is_zero_and_does_not_come_back() -> None:
    seen = []
    padded = Scheme((Lane((Phase("look", lambda chunk: seen.append(chunk.tolist())),)),), multiple=4)
    averaging = ThreadEngine(padded, torch.float32, chunk_bytes=1024, pipelined=True, name="test")
    for number in (1.0, 2.0):  # the second takes over the first one's memory
        bucket = torch.full((5,), number)
        assert averaging(bucket).wait().tolist() == [number] * 5
    averaging.close()
    assert seen == [[1.0] * 5 + [0.0] * 3, [2.0] * 5 + [0.0] * 3]


@pytest.mark.parametrize("pipelined", [True, False])
def test_an_error_reaches_every_future_names_its_phase_and_ends_later_calls(pipelined: bool) -> None:
    gate = threading.Event()

    def fail(chunk: Tensor) -> None:
        gate.wait(60)
        if chunk[0].item() == 4.0:
            raise RuntimeError("connection reset by peer\nmore of it")

    with engine(nothing, fail, nothing, pipelined=pipelined) as averaging:
        futures = [averaging(torch.arange(8.0)), averaging(torch.full((8,), 9.0))]
        gate.set()
        for future in futures:
            with pytest.raises(CommunicationError, match=r"^phase 1: connection reset by peer$"):
                future.wait()
        with pytest.raises(CommunicationError, match=r"^phase 1: connection reset by peer$"):
            averaging(torch.ones(8))


def test_an_error_without_words_is_named_by_its_kind() -> None:
    def fail(_: Tensor) -> None:
        raise TimeoutError

    with engine(fail) as averaging, pytest.raises(CommunicationError, match=r"^phase 0: TimeoutError$"):
        averaging(torch.ones(1)).wait()


def test_it_says_which_phase_has_been_running_for_the_longest() -> None:
    running, gate = threading.Event(), threading.Event()

    def wait(_: Tensor) -> None:
        running.set()
        gate.wait(60)

    with engine(nothing, wait) as averaging:
        assert averaging.doing() == ""
        future = averaging(torch.ones(1))
        running.wait(60)
        assert averaging.doing().startswith("phase 1 for ")
        gate.set()
        future.wait()
