"""Whole processes timed side by side.

A figure of one run says little on a machine that does other things too. Sides take turns, so that a slow minute
meets them all, and beside the wall time stands the time that the processors spent, children included, which another
program's load disturbs less.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finished:
    """One process that ended well."""

    wall: float
    cpu: float
    out: str
    err: str


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None, folder: Path | None = None) -> Finished:
    """Runs `command` to its end; one that fails ends the bench with what it said."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=None if env is None else dict(env), cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        finished = Finished(wall=wall, cpu=usage.ru_utime + usage.ru_stime, out=out.read(), err=err.read())
    if process.returncode != 0:
        sys.exit(f"`{' '.join(command)}` ended with {process.returncode}:\n{finished.err[-4000:]}")
    return finished


def take_turns(sides: Mapping[str, Callable[[], Finished]], *, runs: int) -> dict[str, list[Finished]]:
    """`runs` runs of every side in alternation, after one of each that warms the caches and is not counted."""
    done: dict[str, list[Finished]] = {name: [] for name in sides}
    for number in range(-1, runs):
        for name, side in sides.items():
            finished = side()
            said = "warms up" if number < 0 else f"run {number + 1} of {runs}"
            print(f"{name}: {said}, {finished.wall:.2f} s, {finished.cpu:.2f} s of CPU", file=sys.stderr)
            if number >= 0:
                done[name].append(finished)
    return done


def spread(figures: Sequence[float]) -> str:
    """Least, median and most."""
    return f"{min(figures):8.3f} {statistics.median(figures):8.3f} {max(figures):8.3f}"


def ratio(figures: Sequence[float], base: Sequence[float]) -> str:
    """Quotients of the medians and, less disturbed by load, of the least."""
    of_medians = statistics.median(figures) / statistics.median(base)
    return f"{of_medians:.2f} (of the least: {min(figures) / min(base):.2f})"
