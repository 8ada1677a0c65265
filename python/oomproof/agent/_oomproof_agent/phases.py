"""What the script is doing.

PyTorch has no such notion, so it is read off the moments that have one: an outermost module call, `backward`, an
optimizer's step, a save. A forward phase lasts until the next of these, because the loss is computed after the model
returns.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Set, Tuple

from .device import Device
from .names import BACKWARD, EVALUATION, FORWARD, IDLE, LOAD, OPTIMIZER


class Phases:
    """The current phase and step, told to the device when they change."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.current = LOAD
        self.step = 0
        # What follows a phase that ended: without module hooks a forward pass has no beginning to see.
        self.rest = IDLE
        self._optimizers = 0
        self._backwards = 0
        # Loading counts from the first training step on: before that all is loading.
        self._entered: Set[int] = set()
        self._inside = False
        self.on_first: List[Callable[[], None]] = []
        self.on_backward_end: List[Callable[[], None]] = []

    def moment(self) -> Tuple[int, int]:
        return self.current, self.step

    def enter(self, phase: int) -> None:
        if phase != self.current:
            self.current = phase
            self._device.phase(phase, self.step)
            if phase not in self._entered:
                self._entered.add(phase)
                self._tell(first=True)

    def _tell(self, *, first: bool) -> None:
        if first:
            for action in self.on_first:
                action()

    def forward_begins(self, *, evaluating: bool) -> None:
        """An outermost module call; inside `backward` or a save it is part of that."""
        if self.current == BACKWARD or self._inside:
            return
        if not evaluating and self.step == 0:
            self.step = 1
        self.enter(EVALUATION if evaluating else FORWARD)

    def optimizer_begins(self) -> None:
        self._optimizers += 1
        if self._backwards == 0:
            self.enter(OPTIMIZER)

    def optimizer_ends(self) -> None:
        self._optimizers = max(0, self._optimizers - 1)
        if self._backwards == 0:
            self.enter(self._after())

    def step_ended(self, step: int) -> None:
        self.step = step + 1
        self._device.phase(self.current, self.step)

    def failed(self) -> None:
        """An error cut phases short; what had begun will not end."""
        self._inside = False
        self._optimizers = 0
        self._backwards = 0

    @contextmanager
    def backward(self, *, then_rest: bool) -> Iterator[None]:
        """Around one call into the autograd engine; nested ones belong to the outermost."""
        before = self.current
        self._backwards += 1
        if self._backwards == 1:
            if self.step == 0:
                self.step = 1
            self.enter(BACKWARD)
        try:
            yield
        finally:
            self._backwards = max(0, self._backwards - 1)
            if self._backwards == 0:
                self.enter(self._after() if then_rest or before == BACKWARD else before)

    @contextmanager
    def _within(self, phase: int) -> Iterator[None]:
        """Around a save or a load; what it calls belongs to it."""
        before = self.current
        outermost, self._inside = not self._inside, True
        first = outermost and phase not in self._entered
        if outermost:
            self.enter(phase)
        try:
            yield
        finally:
            if outermost:
                self._inside = False
                self.enter(before)
                # It may have taken long.
                self._tell(first=first)

    def wrap_backward(self, function: Any, *, then_rest: bool, failed: Callable[[BaseException], None]) -> Any:
        """`function` as a backward phase."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            outermost = self._backwards == 0
            with self.backward(then_rest=then_rest):
                try:
                    result = function(*args, **kwargs)
                except BaseException as error:
                    failed(error)
                    raise
            if outermost and then_rest:
                for action in self.on_backward_end:
                    action()
            return result

        return wrapped

    def wrap(self, function: Any, phase: int) -> Any:
        """`function` as a phase of saving or loading."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._within(phase):
                return function(*args, **kwargs)

        return wrapped

    def _after(self) -> int:
        return OPTIMIZER if self._optimizers else self.rest
