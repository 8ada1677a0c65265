"""The stated range of what lies outside PyTorch's allocator, against public measurements of it.

    python bench/context/run.py --data FOLDER --oomproof OOMPROOF

FOLDER holds cuda_context.jsonl and oom_reports.jsonl: contexts that were measured, and out-of-memory texts, some of
which say what the process had in use as well as what PyTorch had reserved. The difference is the real value.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MIB = 1 << 20
# The CUDA version of the usual wheel of each release of PyTorch.
CUDA_OF_TORCH = {
    "1.10": "10.2", "1.11": "10.2", "1.12": "10.2", "1.13": "11.7", "2.0": "11.7", "2.1": "12.1", "2.2": "12.1",
    "2.3": "12.1", "2.4": "12.1", "2.5": "12.4", "2.6": "12.4", "2.7": "12.6", "2.8": "12.8", "2.9": "12.8",
    "2.10": "12.8", "2.11": "13.0", "2.12": "13.0", "2.13": "13.0", "2.14": "13.0", "2.15": "13.0",
}  # fmt: skip
# Where the data names the card in other words than the catalog.
CALLED = {
    "A100 80GB limited to 0.5": "a100-80gb",
    "RTX 3090 24GB": "rtx-3090",
    "V100 32GB x16": "v100-32gb",
    "A100 40GB": "a100-40gb",
    "Tesla T4": "t4",
    "Tesla V100-SXM2-16GB": "v100-16gb",
}
# Two decimals of GiB in each of three figures.
ROUNDING = 15 * MIB
# The weights that are on the device beside the context in one row.
WEIGHTS = re.compile(r"\(([\d.e]+) B of weights\)")
# What of a row says that other memory than context and code is in it.
OTHERS = {
    "cudagraph_pool": "CUDA graphs, which releases before 2.4 count twice",
    "nccl": "NCCL buffers",
}


@dataclass(frozen=True)
class Row:
    """A measurement."""

    source: str
    gpu: str
    capacity: int | None
    versions: str
    cuda: str | None
    real: int
    slack: int
    other: str | None


def cuda_of(versions: str) -> str | None:
    """The CUDA version that a row names, or that the wheel of its PyTorch has by default."""
    stated = re.search(r"\+cu(\d\d)(\d)|CUDA (\d+\.\d)", versions)
    if stated:
        return stated[3] or f"{stated[1]}.{stated[2]}"
    # A row that gives a span of releases is judged by the youngest, whose range is the narrowest.
    releases = ["2.15"] if versions.startswith(">=") else re.findall(r"\d\.\d+", versions)
    return CUDA_OF_TORCH.get(releases[-1]) if releases else None


def measured(folder: Path) -> Iterator[Row]:
    """Contexts that were measured alone."""
    for line in (folder / "cuda_context.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["value_bytes"] is None:
            continue
        weights = WEIGHTS.search(row["what"])
        other = None
        if row["what"].startswith("whole process"):
            other = "what PyTorch reserved is in it and not stated, nor is the release"
        yield Row(
            source=row["what"],
            gpu=row["gpu"],
            capacity=None,
            versions=row["framework_versions"],
            cuda=cuda_of(row["framework_versions"]),
            real=row["value_bytes"] - (int(float(weights[1])) if weights else 0),
            slack=20 * MIB if weights else 0,
            other=other,
        )


def texts(folder: Path) -> Iterator[Row]:
    """Out-of-memory texts with the use of the process, or of one process where that can only be the writer."""
    for line in (folder / "oom_reports.jsonl").read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        numbers = row.get("numbers", {})

        def size(name: str, numbers: dict[str, Any] = numbers) -> int | None:
            return (numbers.get(name) or {}).get("bytes")

        used, processes = size("this_process"), numbers.get("other_processes", [])
        tags = row.get("tags", [])
        if used is None and len(processes) == 1 and "own_process_listed_as_other" in tags:
            used = processes[0]["mem"]["bytes"]
        allocated, idle = size("allocated"), size("reserved_unallocated")
        if used is None or allocated is None or idle is None:
            continue
        common = {
            "gpu": row.get("gpu", "not stated"),
            "capacity": size("total"),
            "versions": row.get("torch", "not stated"),
            "cuda": cuda_of(row.get("torch", "")),
            "slack": ROUNDING,
        }
        why = next((text for tag, text in OTHERS.items() if tag in tags), None)
        if len(processes) > 1:
            alike = {process["mem"]["bytes"] for process in processes}
            for bare in alike if len(alike) == 1 else ():
                yield Row(source=f"{row['id']}, each other rank", real=bare, other=None, **common)
            why = "one of several ranks: NCCL buffers are in it"
        yield Row(source=row["id"], real=used - allocated - idle, other=why, **common)


def cards_of(row: Row, cards: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The card that a row names, or those that report about its capacity."""
    named = CALLED.get(row.gpu)
    if named:
        return [card for card in cards if card["id"] == named]
    capacity = row.capacity
    if capacity is None:
        return []
    return [card for card in cards if abs(card["total_bytes"] / capacity - 1) < 0.012]


def catalog(oomproof: str, cuda: str) -> list[dict[str, Any]]:
    """The catalog with the contexts for a CUDA version."""
    finished = subprocess.run([oomproof, "gpus", "--json", "--cuda", cuda], check=True, capture_output=True, text=True)
    cards: list[dict[str, Any]] = json.loads(finished.stdout)["gpus"]
    return cards


def verdict(row: Row, cards: list[dict[str, Any]]) -> tuple[str, str]:
    """The stated range, and whether it covers the value."""

    def covers(card: dict[str, Any]) -> bool:
        context = card["context_bytes"]
        return bool(context["low"] - row.slack <= row.real <= context["high"] + row.slack)

    if not cards:
        return "", "no such card in the catalog"
    low = min(card["context_bytes"]["low"] for card in cards) // MIB
    high = max(card["context_bytes"]["high"] for card in cards) // MIB
    covered = sum(map(covers, cards))
    if len(cards) == 1:
        return f"{low} to {high}", "covered" if covered else "NOT COVERED"
    return f"{low} to {high}", f"covered on {covered} of the {len(cards)} cards of that capacity"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--oomproof", default="oomproof")
    parser.add_argument("--python", help="not used; `cargo xtask bench` gives it")
    arguments = parser.parse_args()
    form = "{:<42} {:<26} {:<12} {:>5} {:>9}  {:<14} {}"
    print(form.format("row", "card", "release", "CUDA", "real MiB", "stated MiB", "result"))
    judged: list[str] = []
    for row in [*measured(arguments.data), *texts(arguments.data)]:
        if row.other or row.cuda is None:
            stated, result = "", f"not judged: {row.other or 'the release is not stated'}"
        else:
            stated, result = verdict(row, cards_of(row, catalog(arguments.oomproof, row.cuda)))
            judged.append(result)
        cells = (row.source[:42], row.gpu[:26], row.versions[:12], row.cuda or "?", round(row.real / MIB))
        print(form.format(*cells, stated, result))
    outright = sum(result == "covered" for result in judged)
    missed = sum(result == "NOT COVERED" for result in judged)
    print(f"\n{len(judged)} judged: {outright} covered, {missed} not, the rest on cards that are not named")


if __name__ == "__main__":
    main()
