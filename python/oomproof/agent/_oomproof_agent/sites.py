"""Source lines, by a torch function mode around the whole script.

A dispatch mode would see more but changes the peak. A function mode does not, costs about a microsecond, and must get
out of the way for good when the script compiles, because tracing gives up on calls under an unknown mode.
"""

from __future__ import annotations

import functools
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

        self._mode = _mode_class(torch)(self._device, self._frames, on_out_of_memory)
        self._mode.__enter__()

    def watch_hooks_of_levers(self) -> None:
        """What autograd keeps goes through hooks in the middle of a call, when the mode is off the stack."""
        from torch.autograd.graph import saved_tensors_hooks

        original = saved_tensors_hooks.__init__

        @functools.wraps(original)
        def made(hooks: Any, pack: Any, unpack: Any) -> None:
            lever = self._frames.lever(sys._getframe(1))
            if lever is not None:
                pack, unpack = self._marked(lever, pack), self._marked(lever, unpack)
            original(hooks, pack, unpack)

        saved_tensors_hooks.__init__ = made

    def _marked(self, lever: str, hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(hook)
        def marked(value: Any) -> Any:
            words = self._device.words
            number = words[SITE_WORD]
            words[SITE_WORD] = self._frames.site_of_lever(number, lever)
            try:
                return hook(value)
            finally:
                words[SITE_WORD] = number

        return marked

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
            frames: Frames,
            on_out_of_memory: Callable[[BaseException], None],
        ) -> None:
            super().__init__()
            self.quiet = False
            self.held = False
            self._device = device
            self._frames = frames
            self._site = frames.site
            self._failed = on_out_of_memory

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if self.quiet:
                return func(*args, **(kwargs or {}))
            if self._frames.have_levers:
                lever = self._frames.lever(getframe(1))
                if lever is not None:
                    return self._by_lever(lever, getframe(1), lambda: func(*args, **(kwargs or {})))
            if not self.held:
                number = self._site(getframe(1))
                if number:
                    self._device.words[SITE_WORD] = number
            try:
                return func(*args, **kwargs) if kwargs else func(*args)
            except out_of_memory as error:
                self._failed(error)
                raise

        def _by_lever(self, lever: str, frame: Any, call: Callable[[], Any]) -> Any:
            """A call that the plan makes and not the script: its line is marked as a lever's until it is over."""
            words = self._device.words
            number = (0 if self.held else self._site(frame)) or words[SITE_WORD]
            words[SITE_WORD] = self._frames.site_of_lever(number, lever)
            try:
                return call()
            except out_of_memory as error:
                self._failed(error)
                raise
            finally:
                words[SITE_WORD] = number

    return OomproofSites
