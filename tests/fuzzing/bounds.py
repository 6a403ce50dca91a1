"""What a reader may take: one line or an answer, and memory within a bound, torch's and numpy's included."""

import re
from collections.abc import Callable
from pathlib import Path

from pipeline.errors import UserError

MOST_BYTES = 96 * 2**20
"""Beside what was in memory before; the files are of some kilobytes."""

LONGEST_LINE = 1001


def bounded(read: Callable[[], object]) -> object:
    """What `read` gives, or its one line. Raises AssertionError where it took too much memory or said too much.

    The kernel's own count of the pages that the process touched: libraries in C allocate where Python does not look.
    """
    Path("/proc/self/clear_refs").write_text("5")  # proc(5): sets the peak back to what is resident now
    before = _peak_bytes()
    try:
        found: object = read()
    except UserError as error:
        found = str(error)
        assert len(found) <= LONGEST_LINE
        assert len(found.splitlines()) == 1
    assert _peak_bytes() - before < MOST_BYTES
    return found


def _peak_bytes() -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "Linux has it"
    return 1024 * int(found[1])
