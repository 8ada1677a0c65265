"""Judges one decision: does the plan as applied fit, what does a step cost, is it still the same training."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gradients
from cells import Cell, describe, fits, plain
from decision import Decision
from measure import Measured, Variant, Workload

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


@dataclass(frozen=True)
class Judged:
    """One tool in one cell, as it came out."""

    cell: Cell
    tool: str
    decision: Decision
    #: Whether the plan as applied runs to its end under the cap.
    fits: bool
    step_ns: int | None
    plain_ns: int | None
    #: The fastest of the lattice under this cap and its plan; none where nothing of it fits.
    best_ns: int | None
    best_plan: str | None
    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None
    #: Rows of one optimizer step over those of the plain script; none where they are not counted.
    batch_share: float | None
    gradients: gradients.Compared | None

    @property
    def plan(self) -> str:
        """The plan in a few words."""
        return describe(self.decision.variant.answer) if self.decision.variant else self.decision.reason or "none"

    @property
    def over_best(self) -> float | None:
        """How much longer than the best of the lattice a step takes, as a share."""
        if not self.fits or self.step_ns is None or self.best_ns is None:
            return None
        return self.step_ns / self.best_ns - 1

    @property
    def keeps_batch(self) -> bool:
        """Whether an optimizer step still sees as many rows."""
        return self.batch_share is None or abs(self.batch_share - 1) < 1e-6


def judge(cell: Cell, tool: str, decision: Decision, best: tuple[Variant, int] | None, measured: Measured) -> Judged:
    """Runs the plan as applied."""
    base = measured.one(plain(cell.workload))
    result: dict[str, Any] = {}
    if decision.variant is not None:
        result = measured.one(replace(decision.variant, limit_bytes=None))
    fitting = decision.variant is not None and fits(decision.variant, cell.reserved_bytes, measured)
    return Judged(
        cell=cell,
        tool=tool,
        decision=decision,
        fits=fitting,
        step_ns=result.get("step_ns"),
        plain_ns=base.get("step_ns"),
        best_ns=best[1] if best else None,
        best_plan=describe(best[0].answer) if best else None,
        peak_allocated_bytes=result.get("allocated_bytes"),
        peak_reserved_bytes=result.get("reserved_bytes"),
        batch_share=_share(decision.variant, result, base),
        gradients=_gradients(cell.workload, decision, fitting, measured),
    )


def _share(variant: Variant | None, result: dict[str, Any], base: dict[str, Any]) -> float | None:
    if variant is None or not variant.rows or not result.get("rows") or not base.get("rows"):
        return None
    return statistics.median(result["rows"]) / statistics.median(base["rows"])


def _gradients(workload: Workload, decision: Decision, fitting: bool, measured: Measured) -> gradients.Compared | None:
    """Only of plans that are judged to fit, change the script, and claim to be the same training."""
    if decision.variant is None or not fitting or decision.variant == plain(workload) or decision.variant.arguments:
        return None
    return gradients.compare(decision.variant, measured)
