"""One loop over a loader, as far as it has come."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .batches import Size
from .ragged import Looked


class Pass:
    """One loop over a loader."""

    def __init__(self, *, earlier: int, length: Optional[int], began: float) -> None:
        self.key = 0
        self.earlier = earlier
        self.length = length
        self.began = began
        self.yielded = 0
        self.over = False
        self.cuttable = True
        self.walked = False
        self.sizes: Dict[Size, int] = {}
        self.looked: Optional[Looked] = None
        # Batches that come before the end: made on the host, and then as many more as the data gives by itself.
        self.fed: List[Any] = []
        self.owed = 0
        self.times_fed = 0
        # Steps and work on the device, when the last batch was given.
        self.steps_at_start = 0
        self.backwards_at_start = 0
        self.steps = 0
        self.work = 0
        self.active = False
        self.peaks: List[int] = []
        self.reserved: List[int] = []
        self.levels: List[int] = []

    @property
    def ending(self) -> bool:
        """Nothing comes any more."""
        return self.walked and not self.fed and not self.owed

    @property
    def ragged(self) -> bool:
        """The batches differ; a smaller last one is no difference."""
        if len(self.sizes) < 2:
            return False
        last_is_smaller = len(self.sizes) == 2 and self.yielded == self.length
        return not last_is_smaller

    @property
    def growth(self) -> int:
        """By how much each batch leaves more than the one before."""
        recent = self.levels[-3:]
        rises = [later - earlier for earlier, later in zip(recent, recent[1:])]
        return min(rises) if len(rises) == 2 and min(rises) > 0 else 0

    @property
    def rest(self) -> Optional[int]:
        return None if self.length is None else max(0, self.length - self.yielded)
