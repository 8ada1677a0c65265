"""Out-of-memory errors that reach Python.

A caught error passes through no hook of the interpreter, so every place where the agent stands between the script and
PyTorch reports what passes. The same error passes several of them on its way up and is marked the first time.
"""

from __future__ import annotations

from typing import Any, Callable, List

from .device import Device
from .frames import Frames
from .names import OUT_OF_MEMORY, PHASES

_MARK = "_oomproof_seen"


class Ooms:
    """Writes each error once and says when the script went on after one."""

    def __init__(self, device: Device, frames: Frames, moment: Callable[[], Any]) -> None:
        self._device = device
        self._frames = frames
        self._moment = moment
        self._survived = 0
        self.first_seen: List[Callable[[], None]] = []

    def passed(self, error: BaseException) -> None:
        """An error passed on its way to the script; it goes on unchanged."""
        if getattr(error, _MARK, False):
            return
        try:
            setattr(error, _MARK, True)
        except AttributeError:
            return
        place = self._frames.raised(error) or self._frames.here()
        phase, step = self._moment()
        self._device.note(
            kind="oom",
            message=str(error),
            file=place.file if place else None,
            line=place.line if place else None,
            function=place.function if place else None,
            phase=PHASES[phase],
            step=step,
        )
        for action in self.first_seen:
            action()

    def step_ended(self) -> None:
        """A step ended; errors before it did not end the script."""
        count = self._device.counter(OUT_OF_MEMORY)
        if count > self._survived:
            self._survived = count
            self._device.note(kind="oom_survived", count=count)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this is PyTorch's error, without importing it: a script can fail before PyTorch is there."""
    return any(
        kind.__name__ == "OutOfMemoryError" and kind.__module__.split(".")[0] == "torch" for kind in type(error).__mro__
    )
