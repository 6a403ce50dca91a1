"""Turning a configuration into a batch job. Knows nothing of tensors."""

import signal
import sys

IS_A_COMMAND = sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2].startswith("jobs.")

if IS_A_COMMAND and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Ctrl-C while its packages are imported ends it without a traceback; jobs.command_line takes it over afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
