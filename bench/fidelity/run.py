"""Virtual against measured: runs the workloads of a file of public measurements and prints both figures.

    python bench/fidelity/run.py ROWS.jsonl --python PYTHON [--oomproof OOMPROOF]

PYTHON has the torch version that the rows name, with transformers and torchvision; other rows are left out, and said
to be.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

MODELS = ("gpt2", "bert-base-uncased", "distilbert-base-uncased", "resnet50")
GPUS = {"Tesla T4 16GB": "t4"}


def torch_version(python: str) -> str:
    probe = "import importlib.metadata as m; print(m.version('torch'))"
    return subprocess.run([python, "-c", probe], check=True, capture_output=True, text=True).stdout.strip()


def virtual(row: dict, arguments: argparse.Namespace) -> dict | None:
    size = re.search(r"\d+", row["seq_or_image"])
    command = [
        arguments.oomproof,
        "run",
        "--gpu",
        GPUS[row["gpu"]],
        "--full",
        "--json",
        "--python",
        arguments.python,
        str(Path(__file__).with_name("workload.py")),
        row["model"],
        "--batch",
        str(row["batch"]),
        "--size",
        size.group(),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith('{"max_memory_allocated"')]
    if not lines:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    return json.loads(lines[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--python", default=os.environ.get("OOMPROOF_TEST_PYTHON", "python3"))
    parser.add_argument("--oomproof", default=os.environ.get("OOMPROOF_BIN", "target/release/oomproof"))
    arguments = parser.parse_args()

    version = torch_version(arguments.python)
    rows = [json.loads(line) for line in arguments.rows.read_text().splitlines() if line.strip()]
    chosen = [
        row
        for row in rows
        if row["gpu"] in GPUS and row["model"] in MODELS and f"torch {version}" in row["framework_versions"]
    ]
    print(f"{len(chosen)} of {len(rows)} rows are of torch {version} and have a workload here")
    print(f"{'model':26} {'batch':>5} {'size':>8} {'figure':9} {'measured MiB':>12} {'virtual MiB':>12} {'error':>9}")
    known: dict[tuple, dict | None] = {}
    for row in chosen:
        key = (row["model"], row["batch"], row["seq_or_image"])
        if key not in known:
            known[key] = virtual(row, arguments)
        name = "max_memory_allocated" if "allocated" in row["metric"] else "max_memory_reserved"
        figure = (known[key] or {}).get(name)
        measured = row["value_bytes"]
        shown = "failed" if figure is None else f"{figure / 2**20:12.1f} {100 * (figure - measured) / measured:+8.3f}%"
        print(f"{key[0]:26} {key[1]!s:>5} {key[2]:>8} {name[11:]:9} {measured / 2**20:12.1f} {shown}")


if __name__ == "__main__":
    main()
