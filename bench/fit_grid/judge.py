"""Judges one decision: does the plan as applied fit, what does a step cost, is it still the same training."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Any

import gradients
from cells import Cell, describe, fits, plain
from decision import Decision
from measure import Measured, Variant, Workload


@dataclass(frozen=True)
class Judged:
    """One tool in one cell, as it came out; flat, so that a line of JSON holds it."""

    workload: str
    cap: int
    cap_bytes: int
    held_out: bool
    tool: str
    #: The plan in a few words, or why there is none.
    plan: str
    #: Whether the tool gave a plan at all.
    has_plan: bool
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
    #: How far gradients and parameters are from the plain script's, and where; none where it was not looked at.
    gradients_width: float | None
    gradients_where: str | None
    gradients_equal: bool | None
    trials: int
    failed_trials: int
    #: The least memory that the tool says can be reached.
    floor_bytes: int | None

    @property
    def cell(self) -> tuple[str, int]:
        """By which the tools of a cell are brought together."""
        return self.workload, self.cap

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
    variant = decision.variant
    result: dict[str, Any] = {}
    if variant is not None:
        result = measured.one(replace(variant, limit_bytes=None))
    fitting = variant is not None and fits(variant, cell.reserved_bytes, measured)
    compared = _gradients(cell.workload, decision, fitting, measured)
    return Judged(
        workload=cell.workload.name,
        cap=cell.number,
        cap_bytes=cell.reserved_bytes,
        held_out=cell.held_out,
        tool=tool,
        plan=describe(variant.answer) if variant else decision.reason or "none",
        has_plan=variant is not None,
        fits=fitting,
        step_ns=result.get("step_ns"),
        plain_ns=base.get("step_ns"),
        best_ns=best[1] if best else None,
        best_plan=describe(best[0].answer) if best else None,
        peak_allocated_bytes=result.get("allocated_bytes"),
        peak_reserved_bytes=result.get("reserved_bytes"),
        batch_share=_share(variant, result, base),
        gradients_width=compared.width if compared else None,
        gradients_where=compared.where if compared else None,
        gradients_equal=compared.equal if compared and compared.width is not None else None,
        trials=decision.trials,
        failed_trials=decision.failed_trials,
        floor_bytes=decision.floor_bytes,
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
