"""Reading a snapshot: time and memory of whole processes, beside Python's `pickle.load` and PyTorch's viewer.

    python bench/snapshots/run.py [FILE...] [--python PYTHON] [--reader READER] [--replayer REPLAYER] [--runs N]

Without FILE it makes the two files of `make.py` in a temporary folder. PYTHON has torch, whose `cuda/_memory_viz.py` is
run as a script, so that it needs not import torch. READER is the example `read_timed` of the crate `oomproof-snapshot`,
built if not given: it reads a file into the model and finds the peak of live bytes. REPLAYER is `replay_timed` of
`oomproof-replay`: it replays the trace under the recorded settings, compares, and tries the default settings; alone it
prints entries per second. Sides take turns; the least of N
runs is printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LOAD = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"


@dataclass(frozen=True)
class Side:
    """One way to read a file."""

    name: str
    command: list[str]


@dataclass(frozen=True)
class Cost:
    """What a process took."""

    wall: float
    cpu: float
    peak_bytes: int
    failed: bool


def run_once(command: list[str]) -> Cost:
    """Runs a command without looking at what it prints."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, child.returncode != 0)


def built(crate: str, example: str) -> str:
    """An example, built now."""
    subprocess.run(["cargo", "build", "--release", "-p", crate, "--example", example], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    return str(Path(target) / "release" / "examples" / example)


def viewer_of(python: str) -> str:
    """PyTorch's viewer in the environment of an interpreter."""
    find = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    folder = subprocess.run([python, "-c", find], check=True, capture_output=True, text=True).stdout.strip()
    return str(Path(folder) / "cuda" / "_memory_viz.py")


def sides(reader: str, replayer: str, python: str) -> list[Side]:
    """All sides; a further reader is one line more."""
    viewer = viewer_of(python)
    return [
        Side("oomproof, model and peak", [reader]),
        Side("oomproof, read and replay", [replayer]),
        Side("pickle.load", [python, "-c", LOAD]),
        Side("_memory_viz.py stats", [python, viewer, "stats"]),
        Side("_memory_viz.py trace", [python, viewer, "trace"]),
    ]


def made_files(folder: Path) -> list[Path]:
    """The files of `make.py`."""
    files = []
    for lists in ["shared", "own"]:
        file = folder / f"made-{lists}.pickle"
        subprocess.run([sys.executable, str(HERE / "make.py"), str(file), "--lists", lists], check=True)
        files.append(file)
    return files


def compare(files: list[Path], readers: list[Side], runs: int) -> None:
    """Prints the table."""
    heads = f"{'wall s':>8} {'CPU s':>8} {'peak MB':>8} {'x size':>7} {'x wall':>7} {'x CPU':>7}"
    print(f"{'file':<44} {'MiB':>7}  {'side':<26} {heads}")
    for file in files:
        size = file.stat().st_size
        costs: dict[str, list[Cost]] = {side.name: [] for side in readers}
        for _ in range(runs):
            for side in readers:
                costs[side.name].append(run_once([*side.command, str(file)]))
        best = {name: least(found) for name, found in costs.items()}
        ours = best[readers[0].name]
        for side in readers:
            cost = best[side.name]
            ratios = f"{cost.wall / ours.wall:>7.1f} {cost.cpu / max(ours.cpu, 1e-3):>7.1f}"
            peak = f"{cost.peak_bytes / 1e6:>8.0f} {cost.peak_bytes / max(size, 1):>7.1f}"
            line = f"{side.name:<26} {cost.wall:>8.3f} {cost.cpu:>8.3f} {peak} {ratios}"
            failed = "  failed" if cost.failed else ""
            print(f"{file.name:<44} {size / (1 << 20):>7.1f}  {line}{failed}", flush=True)


def least(costs: list[Cost]) -> Cost:
    """The least times of some runs, and the highest peak."""
    return Cost(
        min(cost.wall for cost in costs),
        min(cost.cpu for cost in costs),
        max(cost.peak_bytes for cost in costs),
        any(cost.failed for cost in costs),
    )


def main() -> None:
    """Compares the sides on each file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path, nargs="*")
    parser.add_argument("--python", default=os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable))
    parser.add_argument("--reader")
    parser.add_argument("--replayer")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    readers = sides(
        arguments.reader or built("oomproof-snapshot", "read_timed"),
        arguments.replayer or built("oomproof-replay", "replay_timed"),
        arguments.python,
    )
    if arguments.file:
        compare(arguments.file, readers, arguments.runs)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(made_files(Path(folder)), readers, arguments.runs)


if __name__ == "__main__":
    main()
