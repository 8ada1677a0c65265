"""Whether a plan trains as the plain script does: three steps on the CPU, where all values are real."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cells import plain
from measure import Measured, Variant

#: What may differ where sums are taken in another order, relative to the largest number of a tensor. The numbers are
#: in double precision, so that this is far above what order does, and far below what another loss does.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Compared:
    """How far a plan's gradients and parameters are from those of the plain script."""

    #: The largest difference of a tensor's numbers over its largest number; none where it could not be found.
    width: float | None
    #: Of which tensor, or why not.
    where: str

    @property
    def equal(self) -> bool:
        """Whether they are, but for the order of sums."""
        return self.width is not None and self.width <= TOLERANCE


def compare(variant: Variant, measured: Measured) -> Compared:
    """Runs both on the CPU and compares."""
    answer = dict(variant.answer)
    if "levers" in answer:
        # The allocator of the GPU has no part in this.
        answer["levers"] = [lever for lever in answer["levers"] if lever["name"] != "allocator-settings"]
    for each in (plain(variant.workload), replace(variant, answer=answer)):
        result = measured.one(replace(each, on_cpu=True, limit_bytes=None))
        if result["ended"] != "ok":
            return Compared(None, f"on the CPU: {result['ended']}")
    width, where = result.get("compared") or (None, "fewer than three steps were made")
    return Compared(width, where)
