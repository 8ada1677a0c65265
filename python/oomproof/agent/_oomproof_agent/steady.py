"""When a loop has shown its peak.

Pure decisions over the peaks of finished steps; exact equality would be defeated by blocks of a scalar, so two peaks
are equal when they differ by less than the allocator's smallest block. A later pass over the data repeats the first,
so there it is enough that nothing higher comes.
"""

from __future__ import annotations

from typing import List, Optional

BLOCK = 512
LEAST_STEPS = 3
# Under a plan, what is reserved may still grow after steps that were alike: recomputed and split work finds blocks of
# other sizes behind it. The last word on a plan waits for as many steps as a plateau takes.
PLANNED_STEPS = 8
GROWING_STEPS = 10
VARYING_STEPS = 30
# Batches that are known to differ need no plateau: the largest ones are looked for instead.
RAGGED_STEPS = 8
# Steps on batches of one size still differ a little when blocks are found with more or less room behind them, as with
# two models that take turns. Then it is enough that so many steps bring nothing higher.
PLATEAU_STEPS = 5
# Forward passes are short and cheap, and generation grows from one to the next, so they need a longer calm.
CALM_FORWARDS = 8


class Steady:
    """Collects the peaks of steps and says whether they are known, and why."""

    def __init__(self, *, steps: Optional[int], full: bool, least: int = LEAST_STEPS) -> None:
        self._limit = steps
        self._full = full
        #: So many steps of a first pass are made at least.
        self.least = least
        self._pass_began = 0
        self._passes = 0
        self._over_data = False
        # The batches of the current pass differ in size.
        self.ragged = False
        # An optimizer was made: the states that its first step makes are in the peak of its second.
        self.fresh = False
        self.allocated: List[int] = []
        self.reserved: List[int] = []
        self.left: List[int] = []

    def pass_begins(self) -> None:
        """A loop over data begins; the next step may be the first of another pass."""
        self._over_data = True
        if self._pass_began != len(self.allocated):
            self._pass_began = len(self.allocated)
            self._passes += 1
        self.ragged = False

    def ended(self, *, allocated: int, reserved: int, left: int = 0) -> Optional[str]:
        """A training step ended with these peaks and left so much; a reason when the peak of such steps is known."""
        self.left.append(left)
        self.allocated.append(allocated)
        self.reserved.append(reserved)
        count = len(self.allocated)
        if self._full:
            return None
        if self._limit is not None:
            return "steps" if count >= self._limit else None
        inside = count - self._pass_began
        if not self.fresh and inside >= (2 if self._passes == 1 else 1) and self._nothing_new():
            return "steady"
        if inside < self.least or max(self.allocated) == 0:
            return None
        if self._calm():
            self.fresh = False
            return "steady"
        if inside >= GROWING_STEPS and self._growing():
            return "growing"
        if self._over_data and not self.ragged and inside >= LEAST_STEPS + PLATEAU_STEPS and self._plateau():
            self.fresh = False
            return "steady"
        return "varying" if inside >= (RAGGED_STEPS if self.ragged else VARYING_STEPS) else None

    def forward_ended(self, *, allocated: int, reserved: int) -> Optional[str]:
        """A forward pass of a script that does not train ended."""
        self.left.append(0)
        self.allocated.append(allocated)
        self.reserved.append(reserved)
        count = len(self.allocated)
        if self._full:
            return None
        if self._limit is not None:
            return "steps" if count >= self._limit else None
        if count <= CALM_FORWARDS or max(self.allocated) == 0:
            return None
        before = max(self.allocated[:-CALM_FORWARDS])
        held = max(self.reserved[:-CALM_FORWARDS])
        recent = max(self.allocated[-CALM_FORWARDS:])
        calm = recent < before + BLOCK and max(self.reserved[-CALM_FORWARDS:]) <= held
        return "steady" if calm else None

    def _calm(self) -> bool:
        last, previous = self.allocated[-1], self.allocated[-2]
        return (
            abs(last - previous) < BLOCK
            and last < max(self.allocated[:-1]) + BLOCK
            and self.reserved[-1] <= self.reserved[-2]
        )

    def _plateau(self) -> bool:
        return all(
            max(levels[-PLATEAU_STEPS:]) < max(levels[:-PLATEAU_STEPS]) + by
            for levels, by in ((self.allocated, BLOCK), (self.left, BLOCK), (self.reserved, 1))
        )

    def _nothing_new(self) -> bool:
        begin = self._pass_began
        if begin == 0:
            return False

        def higher(levels: List[int], by: int) -> bool:
            return max(levels[begin:]) >= max(levels[:begin]) + by

        return not (higher(self.allocated, BLOCK) or higher(self.left, BLOCK) or higher(self.reserved, 1))

    def _growing(self) -> bool:
        recent = self.allocated[-(GROWING_STEPS - 1) :]
        return all(later >= earlier + BLOCK for earlier, later in zip(recent, recent[1:]))
