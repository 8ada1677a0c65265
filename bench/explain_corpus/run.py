#!/usr/bin/env python3
"""Scores `oomproof explain` against public reports: figures read right, causes named right, doubts admitted.

    python bench/explain_corpus/run.py PATH/oom_reports.jsonl

The input of the product is the message of a record and nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

import decidable

Record = dict[str, Any]
HERE = Path(__file__).resolve().parent

#: The fields of the corpus and those of the answer.
FIELDS = {
    "tried": "tried_bytes",
    "total": "total_bytes",
    "free": "free_bytes",
    "allocated": "allocated_bytes",
    "reserved_total": "reserved_bytes",
    "cached_unused": "unallocated_bytes",
    "reserved_unallocated": "unallocated_bytes",
    "current_active": "active_bytes",
    "private_pools": "private_pools_bytes",
    "this_process": "this_process_bytes",
    "allowed": "allowed_bytes",
    "mps_allocated": "allocated_bytes",
    "mps_other": "other_allocations_bytes",
    "mps_max_allowed": "allowed_bytes",
    "triton_required_bytes": "required_on_chip_bytes",
    "triton_limit_bytes": "on_chip_limit_bytes",
}


def main() -> None:
    """Scores and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--product", default=None, help="a program that explains one text a line")
    parser.add_argument("--list", action="store_true", help="print which messages decide, and end")
    parser.add_argument("--misses", action="store_true", help="print the records that were missed")
    arguments = parser.parse_args()
    lines = arguments.corpus.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    records = [record for record in records if record.get("message")]
    if arguments.list:
        for record in records:
            why = decidable.reason(record)
            print(record["id"], "decides" if why else "-", why or "", sep="\t")
        return
    answers = explain([record["message"] for record in records], product=arguments.product)
    score_figures(records, answers, show=arguments.misses)
    ids = cause_ids(arguments.product)
    score_causes(records, answers, ids=ids, show=arguments.misses)


def product_command(product: str | None) -> list[str]:
    """How the product is started."""
    if product:
        return [product]
    root = HERE.parent.parent
    cargo = ["cargo", "run", "--quiet", "--release", "--manifest-path", str(root / "Cargo.toml")]
    return [*cargo, "-p", "oomproof-explain", "--example", "explain_lines", "--"]


def explain(messages: list[str], *, product: str | None) -> list[Record]:
    """The product's answer to each message."""
    given = "".join(json.dumps(message) + "\n" for message in messages)
    done = subprocess.run(product_command(product), input=given, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def cause_ids(product: str | None) -> set[str]:
    """The causes that the product knows."""
    command = [*product_command(product), "--causes"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def score_figures(records: list[Record], answers: list[Record], *, show: bool) -> None:
    """Compares every figure of every message."""
    right = total = 0
    for record, answer in zip(records, answers, strict=True):
        for name, expected, got in compared(record, answer["figures"]):
            total += 1
            if expected == got:
                right += 1
            elif show:
                print(f"figure  {record['id']} {name}: {expected} and not {got}")
    print(f"figures right         {right} of {total}")


def compared(record: Record, figures: Record) -> list[tuple[str, Any, Any]]:
    """Each figure of a record, with what was read."""
    found: list[tuple[str, Any, Any]] = []
    for name, figure in (record.get("numbers") or {}).items():
        if name == "other_processes":
            expected = [{"pid": each["pid"], "bytes": each["mem"]["bytes"]} for each in figure]
            found.append((name, expected, figures["processes"]))
        elif name not in FIELDS:
            found.append((name, figure, "a field that the answer does not have"))
        else:
            value = figure["bytes"] if isinstance(figure, dict) else figure
            found.append((name, value, figures[FIELDS[name]]))
    return found


def score_causes(records: list[Record], answers: list[Record], *, ids: set[str], show: bool) -> None:
    """Compares the causes of all records that have one."""
    pairs = list(zip(records, answers, strict=True))
    with_cause = [(record, answer) for record, answer in pairs if set(record["groups"]) & ids]
    known = [pair for pair in with_cause if pair[0]["cause_basis"] != "unresolved"]
    deciding = [pair for pair in with_cause if decidable.reason(pair[0])]
    established = [pair for pair in known if pair[0]["cause_basis"] == "established"]
    print(f"messages              {len(pairs)}, {len(with_cause)} of them with a cause of the list")
    for name, chosen in (
        ("message decides", deciding),
        ("cause established", established),
        ("cause named", known),
    ):
        first = [hit(record, answer, ids=ids, among=1) for record, answer in chosen]
        third = [hit(record, answer, ids=ids, among=3) for record, answer in chosen]
        count = len(chosen)
        print(f"{name:21} {count}: first {percent(sum(first), count)}, first three {percent(sum(third), count)}")
    sure = [pair for pair in pairs if any(cause["sure"] for cause in pair[1]["causes"])]
    judged = [pair for pair in sure if set(pair[0]["groups"]) & ids]
    wrong = [pair for pair in judged if not hit(*pair, ids=ids, among=1)]
    print(f"sure                  {len(sure)}, of which {len(wrong)} wrong")
    if show:
        for record, answer in with_cause:
            if hit(record, answer, ids=ids, among=1):
                continue
            named = [f"{cause['id']}:{cause['score']}" for cause in answer["causes"][:4]]
            decides = "decides" if decidable.reason(record) else "-"
            groups = sorted(set(record["groups"]) & ids)
            print(f"cause   {record['id']} {decides} {record['cause_basis']} {groups} {named}")


def hit(record: Record, answer: Record, *, ids: set[str], among: int) -> bool:
    """Whether one of the first causes is one of the record's."""
    groups = set(record["groups"]) & ids
    return any(cause["id"] in groups for cause in answer["causes"][:among])


def percent(part: int, whole: int) -> str:
    """`17 of 20 (85 %)`."""
    return f"{part} of {whole} ({100 * part / max(whole, 1):.0f} %)"


if __name__ == "__main__":
    main()
