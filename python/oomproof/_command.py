"""The command line as a function."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from oomproof._native import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code.

    Args:
        arguments: The words after `oomproof`; those of this process when none are given.
    """
    words = sys.argv[1:] if arguments is None else arguments
    previous = _release_interrupt()
    try:
        return run(["oomproof", *words], package=Path(__file__).resolve().parent)
    finally:
        if previous is not None:
            signal.signal(signal.SIGINT, previous)


def _release_interrupt() -> signal._HANDLER:
    # The native side handles Ctrl-C while it runs; with Python's handler left in place, the same Ctrl-C would
    # raise KeyboardInterrupt a second time after it.
    try:
        return signal.signal(signal.SIGINT, signal.SIG_DFL)
    except ValueError:  # Only the main thread may change handlers.
        return None
