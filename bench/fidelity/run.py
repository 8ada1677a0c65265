"""Virtual against measured: runs the workloads of a file of public measurements and prints both figures.

    python bench/fidelity/run.py ROWS.jsonl --python 2.11.0=PYTHON [--python 2.6=PYTHON ...] [--oomproof OOMPROOF]

Each PYTHON has the torch of that version and the packages of its workloads; rows of a version that is not given are
left out, and said to be.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import settings  # noqa: E402
from kinds import ANY, Unmatched, Workload, match  # noqa: E402

WORKLOADS = HERE / "workloads"


@dataclass(frozen=True)
class Figures:
    """What one virtual run says."""

    allocated: int
    reserved: int
    process: tuple[int, int, int]
    """The lowest, the likely and the highest of the estimate."""
    verdict: str


def run(workload: Workload, python: str, oomproof: str) -> Figures | None:
    script = str(WORKLOADS / workload.script)
    command = [oomproof, "run", "--gpu", workload.gpu, "--full", "--json", "--python", python, script]
    done = subprocess.run([*command, *workload.arguments], capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith('{"max_memory_allocated"')]
    if not lines:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    own = json.loads(lines[-1])
    verdict = json.loads(done.stdout)
    process = verdict["peak"]["process_bytes"]
    return Figures(
        own["max_memory_allocated"],
        own["max_memory_reserved"],
        (process["low"], process["likely"], process["high"]),
        verdict["verdict"],
    )


def mem_tracker(workload: Workload, python: str, oomproof: str) -> int | str:
    """The peak of PyTorch's own tracker over fake tensors, or the error that it fails with."""
    command = [python]
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode != 0:
        known = settings.of_a_run(oomproof, python, gpu=workload.gpu)
        command += [str(HERE.parent / "device_only.py"), known.device, known.stand_ins, "-"]
    command += [str(HERE / "tracker.py"), str(WORKLOADS / workload.script)]
    try:
        done = subprocess.run([*command, *workload.arguments], capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "not done after 300 s"
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"max_memory_allocated"')]
    if lines:
        peak: int = json.loads(lines[-1])["max_memory_allocated"]
        return peak
    said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith(" ")]
    return f"fails: {said[-1][:100]}" if said else f"fails with exit code {done.returncode}"


def figure_of(metric: str) -> str:
    if "nvidia-smi" in metric:
        return "process"
    return "allocated" if "allocated" in metric else "reserved"


def python_of(version: str, given: dict[str, str]) -> str | None:
    """The interpreter for a version that may name no patch release, or be left open: then the first one."""
    if version == ANY:
        return next(iter(given.values()), None)
    for have, python in given.items():
        if have == version or have.startswith(version + ".") or version.startswith(have + "."):
            return python
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--python", action="append", default=[], metavar="VERSION=PYTHON")
    parser.add_argument("--oomproof", default=os.environ.get("OOMPROOF_BIN", "target/release/oomproof"))
    parser.add_argument("--only", default="", help="rows whose model or script holds this text")
    parser.add_argument("--tracker", action="store_true", help="run PyTorch's MemTracker beside each")
    arguments = parser.parse_args()
    given = dict(one.split("=", 1) for one in arguments.python)

    rows = [json.loads(line) for line in arguments.rows.read_text().splitlines() if line.strip()]
    known: dict[Workload, tuple[Figures | None, int | str | None]] = {}
    errors: dict[str, list[float]] = {"allocated": [], "reserved": [], "process": []}
    outside = 0
    left_out: list[str] = []
    print("| row | model | what | torch | figure | measured | virtual | error | MemTracker |")
    print("| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: |")
    for row in rows:
        found = match(row)
        label = f"{row.get('row', '')} | {row['model'][:44]}"
        if isinstance(found, Unmatched):
            left_out.append(f"{label.replace(' | ', ' ')}: {found.reason}")
            continue
        if arguments.only not in f"{row['model']} {found.script}":
            continue
        python = python_of(found.torch, given)
        if python is None:
            left_out.append(f"{label.replace(' | ', ' ')}: no interpreter given for torch {found.torch}")
            continue
        if found not in known:
            tracked = mem_tracker(found, python, arguments.oomproof) if arguments.tracker else None
            known[found] = run(found, python, arguments.oomproof), tracked
        figures, tracked = known[found]
        name = figure_of(row["metric"])
        measured = row["value_bytes"]
        what = " ".join(found.arguments[1:] if found.script != "gpt_from_scratch.py" else found.arguments)
        if figures is None:
            shown, error = "failed", ""
        else:
            low, figure, high = figures.process if name == "process" else [getattr(figures, name)] * 3
            percent = 100 * (figure - measured) / measured
            errors[name].append(abs(percent))
            shown, error = f"{figure / 2**20:.1f}", f"{percent:+.3f} %"
            if name == "process":
                shown = f"{shown} ({low / 2**20:.0f} to {high / 2**20:.0f})"
                if not low <= measured <= high:
                    outside += 1
                    error += ", outside"
        peer = tracked if isinstance(tracked, str) else ""
        if isinstance(tracked, int) and name == "allocated":
            peer = f"{100 * (tracked - measured) / measured:+.1f} %"
        print(
            f"| {label} | {what} | {found.torch} | {name} | {measured / 2**20:.1f} | {shown} | {error} | {peer} |",
            flush=True,
        )
    for name, values in errors.items():
        if values:
            print(
                f"\n{name}: {len(values)} rows, median |error| {statistics.median(values):.3f} %, "
                f"worst {max(values):.3f} %"
            )
    if errors["process"]:
        print(f"outside of the range of its process: {outside} of {len(errors['process'])} rows")
    print("\nLeft out:\n" + "\n".join(f"- {line}" for line in left_out))


if __name__ == "__main__":
    main()
