"""What a tool decided for a cell, and how it came to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cells import Cell, fits
from measure import Measured, Variant


@dataclass(frozen=True)
class Decision:
    """One tool in one cell."""

    #: What is to be judged; none where the tool has no answer.
    variant: Variant | None
    #: Runs of the script, or of something like it, that the tool asked for.
    trials: int = 0
    #: Those of them that ran out of memory or failed.
    failed_trials: int = 0
    #: Why there is no answer, in the tool's words where it has some.
    reason: str | None = None
    #: The least memory that the tool says can be reached, where it says so.
    floor_bytes: int | None = None
    #: What the tool itself predicted or found, to be compared.
    claimed: dict[str, Any] | None = None


def first_that_fits(cell: Cell, ladder: list[Variant], measured: Measured) -> Decision:
    """Tries one after the other, as a person does who runs the script again with the next setting."""
    for tried, variant in enumerate(ladder):
        if fits(variant, cell.reserved_bytes, measured):
            return Decision(variant, trials=tried + 1, failed_trials=tried)
    return Decision(None, trials=len(ladder), failed_trials=len(ladder), reason="its last setting does not fit")


def best_of_sweep(cell: Cell, points: list[Variant], measured: Measured) -> Decision:
    """Tries all settings and takes the fastest that fits."""
    fitting: list[tuple[int, int]] = []
    for number, variant in enumerate(points):
        if fits(variant, cell.reserved_bytes, measured):
            time = measured.one(variant).get("step_ns")
            fitting.append((time or 0, number))
    failed = len(points) - len(fitting)
    if not fitting:
        return Decision(None, trials=len(points), failed_trials=failed, reason="none of its settings fits")
    return Decision(points[min(fitting)[1]], trials=len(points), failed_trials=failed)
