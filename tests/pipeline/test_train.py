"""A rank's start and end, beside training itself."""

import signal
import subprocess
import sys

import pytest

LATE = """
import os, signal, sys
from pipeline.train import ignore_late_requests

class Late:
    def __del__(self, kill=os.kill, pid=os.getpid()):  # when Python has taken its handlers away
        kill(pid, %d)

late = Late()
signal.signal(%d, lambda *_: None)
if "ignoring" in sys.argv:
    ignore_late_requests({"TORUS224_TERM_SAVES": "1"})
"""


@pytest.mark.parametrize("request_to_save", [signal.SIGUSR2, signal.SIGTERM])
def test_a_request_to_save_that_comes_too_late_does_not_end_a_rank(request_to_save: signal.Signals) -> None:
    code = LATE % (request_to_save, request_to_save)
    ended = [subprocess.run([sys.executable, "-c", code, word], check=False) for word in ("ignoring", "as it was")]
    assert [one.returncode for one in ended] == [0, -request_to_save]
