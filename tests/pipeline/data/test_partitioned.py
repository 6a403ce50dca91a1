"""Waiting for an exchange: as long as it moves, and no longer."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.data.exchange import ExchangeError
from pipeline.data.partitioned import BEGUN, FAILED, LEFT, READY, Room, wait_for
from pipeline.data.segment import share
from pipeline.evaluate import OneProcess


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
    wait_for(2, here)
    thread.join()
    assert time.monotonic() - began >= 0.9


def test_one_that_stands_still_ends_the_wait_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ExchangeError, match=r"has stood still for 0\.1 s"):
        wait_for(0, room(tmp_path, 0.1))


def test_one_that_failed_ends_the_wait_at_once(tmp_path: Path) -> None:
    here = room(tmp_path, 60)
    here.segment.say(FAILED, 1)
    with pytest.raises(ExchangeError, match="failed on this node's first worker; its log says why"):
        wait_for(0, here)
