"""A trace of a few updates as Chrome's trace format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The phases of an update are named in it: data, forward, backward and optimiser; and `all-reduce: PHASE` on a thread for
each phase of the all-reduce, or one for all, beside them.
"""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch.autograd import profiler
from torch.profiler import ProfilerActivity, profile, record_function

WARMUP_UPDATES = 3
"""Updates before the traced ones: the first of an attempt allocate memory and pick kernels. At least one is needed."""

_NOTHING = nullcontext()


def phase(name: str) -> AbstractContextManager[object]:
    """Name what runs inside in a trace; without a trace it costs a tenth of a microsecond or two."""
    return record_function(name) if profiler._is_profiler_enabled else _NOTHING


class Profiler:
    """Traces `updates` updates of an attempt, once, after `WARMUP_UPDATES`; 0: none, at no cost."""

    def __init__(self, updates: int, folder: Path, update: int) -> None:
        """folder: where the trace goes. update: updates that the run has done already."""
        self._folder = folder
        self._first = update + WARMUP_UPDATES + 1
        self._left = updates + WARMUP_UPDATES if updates else 0
        self._updates = updates
        self._profile: profile | None = None

    def update_done(self) -> None:
        """Count an update; starts and ends the trace at the right ones."""
        if not self._left:
            return
        self._left -= 1
        if self._left == self._updates:
            self._start()
        elif self._left == 0:
            self.close()

    def close(self) -> None:
        """Write what has been traced, if anything."""
        if self._profile is None:
            return
        self._profile.stop()
        done = self._updates - self._left
        self._left = 0
        if done:
            self._folder.mkdir(exist_ok=True)
            last = self._first + done - 1
            self._profile.export_chrome_trace(str(self._folder / f"rank-0-updates-{self._first}-{last}.json"))
        self._profile = None

    def _start(self) -> None:
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        # The all-reduce and the loader have threads of their own, which a trace leaves out unless it is asked for all.
        threads = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        self._profile = profile(activities=activities, experimental_config=threads)
        self._profile.start()
