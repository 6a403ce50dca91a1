"""Waiting for an exchange: as long as it moves, and no longer."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.data.epochs import Epochs
from pipeline.data.exchange import ExchangeError
from pipeline.data.memory import ABSENT
from pipeline.data.partitioned import BEGUN, LEFT, READY, Exchanger, Partitioned, Room, Schedule, wait_for
from pipeline.data.segment import share
from pipeline.data.shards import read_index
from pipeline.data.staging import stage
from pipeline.evaluate import OneProcess
from tests.pipeline.data.images import jpeg, write_images


def room(folder: Path, patience_s: float) -> Room:
    segment = share(OneProcess(), 10, fields=LEFT + 1, folder=folder)
    return Room(segment, [slice(0, 5), slice(5, 10)], np.empty(0, np.int64), 1, patience_s)


def test_one_that_moves_is_waited_for_whatever_it_takes(tmp_path: Path) -> None:
    here = room(tmp_path, 0.5)

    def move() -> None:
        for begun in range(10):
            time.sleep(0.1)
            here.segment.say(BEGUN, begun)
        here.segment.say(READY, 3)

    thread = threading.Thread(target=move)
    thread.start()
    began = time.monotonic()
    wait_for(2, here, threading.Event())
    thread.join()
    assert time.monotonic() - began >= 0.9


def test_one_that_stands_still_ends_the_wait_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ExchangeError, match=r"has stood still for 0\.1 s"):
        wait_for(0, room(tmp_path, 0.1), threading.Event())


def test_a_wait_that_is_given_up_ends_at_once(tmp_path: Path) -> None:
    given_up = threading.Event()
    threading.Timer(0.1, given_up.set).start()
    with pytest.raises(ExchangeError, match="was given up"):
        wait_for(0, room(tmp_path, 60), given_up)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_images(tmp_path, train=[jpeg(number) for number in range(40)], validation=[jpeg(100)])
    return tmp_path


class Broken:
    """The first of two nodes' first workers, whose network does not work."""

    def Get_rank(self) -> int:
        return 0

    def Dup(self) -> "Broken":
        return self

    def Ialltoallv(self, *_: object) -> None:
        raise OSError("link down")

    def allgather(self, mine: object) -> list[object]:
        return [mine, (1, "")]


def test_a_failed_exchange_is_told_by_the_nodes_first_worker_and_a_stop_does_not_hang(folder: Path) -> None:
    index = read_index(folder, "train")
    plan = make_plan(compose(["exp=exp5", "workers=4", "data.train_samples=40"]))
    schedule = Schedule(Epochs(0, plan, ((0, 1), (2, 3))), index.size, (0, 1), 2)
    (staged,) = stage([index], OneProcess(), folder=folder)
    size = int(index.size.sum())
    segment = share(OneProcess(), 2 * size, fields=LEFT + 1, folder=folder)
    here = Room(segment, [slice(0, size), slice(size, 2 * size)], np.full(40, ABSENT), 1, 0.2)
    exchanger = Exchanger(index, schedule, here, staged, Broken(), size)
    source = Partitioned(index, schedule, here, node=0, local_rank=0, exchanger=exchanger)
    with pytest.raises(ExchangeError, match="stood still"):
        source.epoch(0)
    with pytest.raises(RuntimeError, match="the exchange of samples failed on this node: OSError: link down"):
        source.check()
    with pytest.raises(RuntimeError, match="failed on another node or here: OSError: link down"):
        source.close()
