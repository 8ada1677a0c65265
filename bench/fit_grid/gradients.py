"""Whether a plan trains as the plain script does: three steps on the CPU, where all values are real."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cells import plain
from measure import Measured, Variant

#: What may differ where sums are taken in another order, relative to the largest number of a tensor. The numbers are
#: in double precision, so that this is far above what order does, and far below what another loss does.
TOLERANCE = 1e-6
#: The same in single precision, for the plans that cannot be applied otherwise.
IN_SINGLE = 1e-3


@dataclass(frozen=True)
class Compared:
    """How far a plan's gradients and parameters are from those of the plain script."""

    #: The largest difference of a tensor's numbers over its largest number; none where it could not be found.
    width: float | None
    #: Of which tensor, or why not.
    where: str

    #: Whether the numbers had to be in single precision.
    in_single: bool = False

    @property
    def equal(self) -> bool:
        """Whether they are, but for the order of sums."""
        return self.width is not None and self.width <= (IN_SINGLE if self.in_single else TOLERANCE)


def compare(variant: Variant, measured: Measured) -> Compared:
    """Runs both on the CPU and compares."""
    answer = dict(variant.answer)
    if "levers" in answer:
        # The allocator of the GPU has no part in this.
        answer["levers"] = [lever for lever in answer["levers"] if lever["name"] != "allocator-settings"]
    applied = replace(variant, answer=answer, on_cpu=True, limit_bytes=None)
    found = _compare(applied, measured)
    if found.width is None and "refused" in found.where:
        # A count in double precision on the CPU looks to autograd like a number that a person wrote.
        found = _compare(replace(applied, in_single=True), measured)
    return found


def _compare(variant: Variant, measured: Measured) -> Compared:
    base = replace(plain(variant.workload), on_cpu=True, in_single=variant.in_single)
    for each in (base, variant):
        result = measured.one(each)
        if result["ended"] != "ok":
            return Compared(None, f"on the CPU: {result['ended']}")
    width, where = result.get("compared") or (None, "fewer than three steps were made")
    return Compared(width, where, in_single=variant.in_single)
