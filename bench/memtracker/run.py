"""Whole process of the GPT-2 example: oomproof against PyTorch's MemTracker doing the same on fake tensors.

    python bench/memtracker/run.py [--python PYTHON] [--oomproof OOMPROOF] [--runs N] [--steps N]

Both sides build GPT-2 124M, train it with batches of 8x1024 in bfloat16 autocast with AdamW for the same number of
steps, and say the peak of allocated memory. Neither needs a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import settings  # noqa: E402
from timing import Finished, ratio, run, spread, take_turns  # noqa: E402

EXAMPLE = HERE.parent.parent / "examples" / "train_gpt2.py"
MIB = 2**20


def ours(arguments: argparse.Namespace) -> Finished:
    return run(
        [
            arguments.oomproof,
            "run",
            "--json",
            "--steps",
            str(arguments.steps),
            "--gpu",
            "h100",
            "--python",
            arguments.python,
            str(EXAMPLE),
        ]
    )


def peer(arguments: argparse.Namespace, before: list[str]) -> Finished:
    return run([arguments.python, *before, str(HERE / "peer.py"), str(EXAMPLE), "--steps", str(arguments.steps)])


def before_peer(arguments: argparse.Namespace) -> list[str]:
    """What lets the peer import torch where NVIDIA's libraries are not installed."""
    if subprocess.run([arguments.python, "-c", "import torch"], capture_output=True).returncode == 0:
        return []
    known = settings.of_a_run(arguments.oomproof, arguments.python, gpu="h100")
    print("this torch lacks NVIDIA's libraries; the peer gets stand-ins, without a device", file=sys.stderr)
    return [str(HERE.parent / "device_only.py"), known.device, known.stand_ins, "-"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=os.environ.get("OOMPROOF_TEST_PYTHON", "python3"))
    parser.add_argument("--oomproof", default=os.environ.get("OOMPROOF_BIN", "target/release/oomproof"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    arguments = parser.parse_args()

    before = before_peer(arguments)
    done = take_turns(
        {"oomproof": lambda: ours(arguments), "MemTracker": lambda: peer(arguments, before)}, runs=arguments.runs
    )
    peaks = {
        "oomproof": json.loads(done["oomproof"][-1].out)["peak"]["allocated_bytes"],
        "MemTracker": json.loads(done["MemTracker"][-1].out)["peak_bytes"],
    }
    rest = f"{'median':>8} {'most':>8}"
    print(f"{'':12} {'wall: least':>11} {rest}   {'CPU: least':>10} {rest}   peak MiB")
    for name, finished in done.items():
        wall, cpu = [one.wall for one in finished], [one.cpu for one in finished]
        print(f"{name:12}    {spread(wall)}     {spread(cpu)}   {peaks[name] / MIB:8.1f}")
    base, own = done["MemTracker"], done["oomproof"]
    print(f"oomproof / MemTracker, wall: {ratio([one.wall for one in own], [one.wall for one in base])}")
    print(f"oomproof / MemTracker, CPU:  {ratio([one.cpu for one in own], [one.cpu for one in base])}")
    print(f"peak, MemTracker - oomproof: {100 * (peaks['MemTracker'] / peaks['oomproof'] - 1):+.2f} %")
    turns = [a.wall / b.wall for a, b in zip(own, base, strict=True)]
    print(
        f"oomproof was the faster in {sum(turn < 1 for turn in turns)} of {len(turns)} turns, "
        f"median quotient {statistics.median(turns):.2f}"
    )


if __name__ == "__main__":
    main()
