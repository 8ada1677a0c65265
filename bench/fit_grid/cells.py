"""The cells of the grid: which caps each workload has, and whether a variant fits one.

A cap is what PyTorch's allocator may reserve; the card that a tool is told of has the context beside it. Whether a
variant fits is what the allocator does at the cap. It is run there only where that is not clear already: a run that
reserves no more than the cap without one is the same run with it, and one that needs more allocated cannot fit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from measure import PLAIN, Measured, Variant, Workload

#: How far each cap is from the floor to what the plain script reserves. The last one lies below the floor.
SHARES = (0.98, 0.84, 0.70, 0.56, 0.42, 0.28, 0.14, 0.02)
BELOW_THE_FLOOR = 0.75
CAPS = Path(__file__).resolve().parent / "caps.json"


@dataclass(frozen=True)
class Cell:
    """One workload under one cap."""

    workload: Workload
    number: int
    reserved_bytes: int

    @property
    def held_out(self) -> bool:
        """Whether it is left out of all tuning."""
        return self.workload.held_out or self.number % 2 == 1


def cells_of(workload: Workload, *, quick: bool) -> list[Cell]:
    """The caps that were set for a workload; in the normal run every other one."""
    kept = json.loads(CAPS.read_text())[workload.name]["reserved_bytes"]
    every = [Cell(workload, number, reserved) for number, reserved in enumerate(kept)]
    return [cell for cell in every if not quick or (cell.number % 2 == 0 and cell.number < len(SHARES))]


def set_caps(workload: Workload, *, plain_reserved: int, floor_reserved: int) -> None:
    """Keeps caps between the floor and the plain script, so that later runs have the same."""
    kept = json.loads(CAPS.read_text()) if CAPS.exists() else {}
    caps = [floor_reserved + int((plain_reserved - floor_reserved) * share) for share in SHARES]
    kept[workload.name] = {
        "plain_reserved_bytes": plain_reserved,
        "floor_reserved_bytes": floor_reserved,
        "reserved_bytes": [*caps, int(floor_reserved * BELOW_THE_FLOOR)],
    }
    CAPS.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


def fits(variant: Variant, cap: int, measured: Measured) -> bool:
    """Whether a variant runs to its end with no more reserved than `cap`."""
    free = measured.one(replace(variant, limit_bytes=None))
    if free["ended"] != "ok":
        return False
    if free["reserved_bytes"] <= cap:
        return True
    if free["allocated_bytes"] > cap:
        return False
    return bool(measured.one(replace(variant, limit_bytes=cap))["ended"] == "ok")


def step_ns(variant: Variant, measured: Measured) -> int | None:
    """The device's time of one step, where it ran."""
    free = measured.one(replace(variant, limit_bytes=None))
    return free.get("step_ns") if free["ended"] == "ok" else None


def cheapest(variants: Iterable[Variant], cap: int, measured: Measured) -> tuple[Variant, int] | None:
    """Of those that fit, the one with the least time; only as many are run at the cap as are needed."""
    every = list(variants)
    results = measured.of([replace(variant, limit_bytes=None) for variant in every])
    by_time = sorted(
        (
            (result["step_ns"], number)
            for number, result in enumerate(results)
            if result["ended"] == "ok" and result.get("step_ns") is not None
        ),
    )
    for time, number in by_time:
        if fits(every[number], cap, measured):
            return every[number], int(time)
    return None


def plain(workload: Workload) -> Variant:
    """The script as it is."""
    return Variant(workload, PLAIN)


def describe(answer: dict[str, Any]) -> str:
    """An answer in a few words."""
    if answer["kind"] == "ours":
        words = []
        for lever in answer["levers"]:
            values = [
                f"{len(value)} modules" if isinstance(value, list) else str(value)
                for name, value in lever.items()
                if name != "name"
            ]
            words.append(" ".join([lever["name"], *values]))
        return ", ".join(words) or "as it is"
    if answer["kind"] == "rules":
        return f"checkpoint {len(answer['modules'])}" + (f" keeping {answer['keep']}" if answer.get("keep") else "")
    return " ".join(str(value) for name, value in answer.items() if name != "kind") or "as it is"
