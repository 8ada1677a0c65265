"""When a training step ends.

A step is one `optimizer.step()`, with all the micro-batches before it. With several optimizers it is a round of the
one that stepped first; without any it is a backward pass, and in a script that never trains a forward pass.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, List, Optional

from .course import Course
from .device import Device
from .names import ALLOCATED, EVENTS, STEP_PEAK_ALLOCATED, STEP_PEAK_RESERVED
from .steady import Steady

# A script may look at a few outputs before it trains.
_FORWARDS_BEFORE_TRAINING = 8
# An optimizer that has been made may be about to step; after this many steps of others it is taken for unused.
_PATIENCE = 10


class Steps:
    """Counts steps, and tells `Course` when `Steady` knows their peak."""

    def __init__(
        self,
        device: Device,
        steady: Steady,
        course: Course,
        *,
        on_end: Callable[[int], None],
    ) -> None:
        self._device = device
        self._steady = steady
        self._course = course
        self._on_end = on_end
        self._made: List[Any] = []
        self._stepped: List[int] = []
        self._primary: Optional[Any] = None
        self._others = 0
        self._forwards = 0
        self._trained = False
        self.count = 0
        # Passes of the autograd engine, of which a step may have several.
        self.backwards = 0

    def wrap_init(self, function: Any) -> Any:
        """`Optimizer.__init__` that makes the optimizer known before its first step."""

        @functools.wraps(function)
        def wrapped(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            function(optimizer, *args, **kwargs)
            self.made(optimizer)

        return wrapped

    def made(self, optimizer: Any) -> None:
        self._made.append(weakref.ref(optimizer))
        self._steady.fresh = True

    def optimizers(self) -> List[Any]:
        """Those that exist."""
        alive = [reference() for reference in self._made]
        return [optimizer for optimizer in alive if optimizer is not None]

    def optimizer_ended(self, optimizer: Any) -> None:
        self._trained = True
        if id(optimizer) not in self._stepped:
            self._stepped.append(id(optimizer))
        primary = self._primary() if self._primary is not None else None
        if primary is None or self._others > _PATIENCE:
            primary = optimizer
            self._primary = weakref.ref(optimizer)
        if primary is optimizer:
            self._others = 0
            self._end()
        else:
            self._others += 1

    def backward_ended(self) -> None:
        self.backwards += 1
        self._trained = True
        if not self._alive():
            self._end()

    def wrap_backward(self, function: Any) -> Any:
        """`torch.autograd.backward` that is counted and nothing else."""
        depth = 0

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                result = function(*args, **kwargs)
            finally:
                depth -= 1
            if depth == 0:
                self.backward_ended()
            return result

        return wrapped

    def forward_ended(self) -> None:
        if self._trained or self._alive():
            return
        self._forwards += 1
        if self._forwards > _FORWARDS_BEFORE_TRAINING:
            self._end(forward=True)

    def waiting_for(self) -> str:
        """What has to happen before the run stops by itself."""
        if self.count == 0:
            return "the end of the first training step"
        if self._unstepped():
            return f"the first step of another optimizer; {self.count} steps ended"
        return f"a steady peak; {self.count} steps ended"

    def _alive(self) -> bool:
        return any(reference() is not None for reference in self._made)

    def _unstepped(self) -> bool:
        alive = (reference() for reference in self._made)
        return any(entry is not None and id(entry) not in self._stepped for entry in alive)

    def _end(self, *, forward: bool = False) -> None:
        self.count += 1
        allocated = self._device.counter(STEP_PEAK_ALLOCATED)
        reserved = self._device.counter(STEP_PEAK_RESERVED)
        self._device.step(self.count)
        self._on_end(self.count)
        if forward:
            reason = self._steady.forward_ended(allocated=allocated, reserved=reserved)
        else:
            left = self._device.counter(ALLOCATED)
            reason = self._steady.ended(allocated=allocated, reserved=reserved, left=left)
        self._course.step_ended(step=self.count, reason=reason if self._counts(reason) else None)

    def _counts(self, reason: Optional[str]) -> bool:
        if reason != "steps" and not self._device.counter(EVENTS):
            return False
        return not (reason == "steady" and self._unstepped() and self.count < _PATIENCE)
