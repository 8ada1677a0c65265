"""Source lines, by a torch function mode around the whole script.

A dispatch mode would see more but changes the peak. A function mode does not, costs about a microsecond, and must get
out of the way for good when the script compiles, because tracing gives up on calls under an unknown mode.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

from .device import Device
from .frames import Frames
from .names import SITE_WORD


class Sites:
    """Keeps the device's word for the current source line."""

    def __init__(self, device: Device, frames: Frames) -> None:
        self._device = device
        self._frames = frames
        self._mode: Any = None

    @property
    def watching(self) -> bool:
        return self._mode is not None

    def mark(self) -> None:
        """Stores the line that is running now; for the few moments that are watched without a mode."""
        number = self._frames.site(sys._getframe(1))
        if number:
            self._device.words[SITE_WORD] = number

    def watch(self, *, on_out_of_memory: Callable[[BaseException], None]) -> None:
        """Enters the mode on this thread, at the bottom of its stack."""
        import torch

        self._mode = _mode_class(torch)(self._device, self._frames.site, on_out_of_memory)
        self._mode.__enter__()

    def hold(self) -> None:
        """Keeps the line that is running now: an optimizer makes thousands of calls, all of them for that line."""
        self.mark()
        if self._mode is not None:
            self._mode.held = True

    def release(self) -> None:
        if self._mode is not None:
            self._mode.held = False

    def step_aside(self) -> None:
        """Leaves the mode for good, wherever in the stack it is."""
        mode, self._mode = self._mode, None
        if mode is None:
            return
        from torch import overrides

        # A mode that is handling a call is off the stack and comes back after it, so it also goes quiet.
        mode.quiet = True
        above = []
        for _ in range(overrides._len_torch_function_stack()):
            top = overrides._pop_mode()
            if top is mode:
                break
            above.append(top)
        for other in reversed(above):
            overrides._push_mode(other)


def _mode_class(torch: Any) -> Any:
    out_of_memory = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
    getframe = sys._getframe

    class OomproofSites(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __init__(
            self,
            device: Device,
            site: Callable[[Any], int],
            on_out_of_memory: Callable[[BaseException], None],
        ) -> None:
            super().__init__()
            self.quiet = False
            self.held = False
            self._device = device
            self._site = site
            self._failed = on_out_of_memory

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if self.quiet:
                return func(*args, **(kwargs or {}))
            if not self.held:
                number = self._site(getframe(1))
                if number:
                    self._device.words[SITE_WORD] = number
            try:
                return func(*args, **kwargs) if kwargs else func(*args)
            except out_of_memory as error:
                self._failed(error)
                raise

    return OomproofSites
