"""Every snapshot of a folder: what our summary says, beside the same figures counted from `pickle.load` by other code.

    python bench/snapshots/check.py FOLDER... [--reader READER] [--rewriter REWRITER]

READER and REWRITER are the examples `summary` and `rewrite` of the crate `oomproof-snapshot`, built if not given. A
file is `same` when all figures agree and when what we write of it loads as the same Python objects; `refused` comes
with our reason. Only files that hold plain pickles are loaded by Python, which runs what they say: give it none that
you do not trust.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


def built(example: str) -> str:
    """An example, built now."""
    build = ["cargo", "build", "--release", "-p", "oomproof-snapshot", "--example", example]
    subprocess.run(build, cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    return str(Path(target) / "release" / "examples" / example)


def ours(reader: str, file: Path) -> dict[int, list[str]] | str:
    """Our figures of each device, or why there are none."""
    done = subprocess.run([reader, "--numbers", str(file)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stderr.strip() or f"exit code {done.returncode}"
    lines = [line.split() for line in done.stdout.splitlines()]
    return {int(line[0]): line[1:] for line in lines}


def counted(data: Any) -> dict[int, list[str]]:
    """The same figures, counted block by block with a table of what is live."""
    segments = data if isinstance(data, list) else data.get("segments", [])
    traces = [] if isinstance(data, list) else data.get("device_traces", [])
    devices = {segment["device"] for segment in segments} | {at for at, trace in enumerate(traces) if trace}
    found = {}
    for device in sorted(devices):
        own = [segment for segment in segments if segment["device"] == device]
        blocks = [block for segment in own for block in segment["blocks"]]
        trace = traces[device] if device < len(traces) else []
        allocated = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
        active = sum(block["size"] for block in blocks if block["state"] != "inactive")
        reserved = sum(segment["total_size"] for segment in own)
        figures = [len(own), reserved, allocated, active, len(trace), *peak(blocks, trace)]
        found[device] = [str(figure) for figure in figures]
    return found


def peak(blocks: list[dict[str, Any]], trace: list[dict[str, Any]]) -> tuple[int | str, int | str]:
    """The most that was live and after which entry, by running the trace backwards from the end and then forwards."""
    if not trace:
        return "-", "-"
    live = sum(block["requested_size"] for block in blocks if block["state"] == "active_allocated")
    for entry in reversed(trace):
        if entry["action"] == "alloc":
            live -= entry["size"]
        elif entry["action"] == "free_requested":
            live += entry["size"]
    highest: int = live
    where: int | str = "-"
    for at, entry in enumerate(trace):
        if entry["action"] == "alloc":
            live += entry["size"]
        elif entry["action"] == "free_requested":
            live -= entry["size"]
        if live > highest:
            highest, where = live, at
    return highest, where


def comparable(data: Any) -> Any:
    """Without what the model leaves out: earlier uses of a block in torch 2.0, and lists of no frames."""
    segments = data if isinstance(data, list) else data.get("segments", [])
    for block in (block for segment in segments for block in segment["blocks"]):
        history = block.get("history")
        if history is not None and (block["state"] == "inactive" or not history[0].get("frames")):
            del block["history"]
        elif history is not None:
            block["history"] = history[:1]
    traces = [] if isinstance(data, list) else data.get("device_traces", [])
    for entry in (entry for trace in traces for entry in trace):
        if not entry.get("frames", True):
            del entry["frames"]
    return data


def rewritten(rewriter: str, file: Path) -> Any:
    """What we write of a file, loaded by Python."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "again.pickle"
        subprocess.run([rewriter, str(file), str(target)], check=True)
        return pickle.loads(target.read_bytes())


def verdict(file: Path, reader: str, rewriter: str) -> str:
    """A line about a file, without its name."""
    read = ours(reader, file)
    if isinstance(read, str):
        return f"refused   {read}"
    if file.read_bytes()[:1] != b"\x80":
        return f"read      {read} (not a plain pickle: not compared)"
    data = pickle.loads(file.read_bytes())
    expected = counted(data)
    if read != expected:
        return f"DIFFERS   ours {read}, counted {expected}"
    again = rewritten(rewriter, file)
    if comparable(again) != comparable(data):
        return "DIFFERS   what was written is not what was read"
    parts = [f"device {at}: {', '.join(figures)}" for at, figures in read.items()]
    return f"same      {'; '.join(parts) or 'empty'}"


def main() -> None:
    """Prints a line for each file, and counts them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--reader")
    parser.add_argument("--rewriter")
    arguments = parser.parse_args()
    reader = arguments.reader or built("summary")
    rewriter = arguments.rewriter or built("rewrite")
    print("of each device: segments, reserved, allocated, active, entries, peak of live bytes, its entry")
    counts: dict[str, int] = {}
    for folder in arguments.folder:
        for file in sorted(folder.glob("*.pickle*")):
            line = verdict(file, reader, rewriter)
            counts[line.split()[0]] = counts.get(line.split()[0], 0) + 1
            print(f"{file.name:<44} {line}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.items()))


if __name__ == "__main__":
    main()
