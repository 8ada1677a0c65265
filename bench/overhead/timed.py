"""Runs a script unmodified and says when its lines came: `python timed.py SCRIPT ARGS`.

The clock starts when torch has been imported. What the script prints after each step marks the step. The last line
of the error stream is one JSON object: pairs of seconds passed and seconds of CPU, one for each printed line.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from pathlib import Path

import torch  # noqa: F401 - its import is not part of what is measured

START = (time.perf_counter(), time.process_time())


class Marks:
    """Standard output that remembers when each line ended."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, float, float]] = []

    def write(self, text: str) -> int:
        if text.strip():
            self.marks.append((text.strip(), time.perf_counter() - START[0], time.process_time() - START[1]))
        return len(text)

    def flush(self) -> None:
        pass


def main() -> None:
    marks = Marks()
    sys.stdout = marks  # type: ignore[assignment]
    sys.argv[:] = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
    end = ("end", time.perf_counter() - START[0], time.process_time() - START[1])
    os.write(2, ("MARKS" + json.dumps([*marks.marks, end]) + "\n").encode())


main()
