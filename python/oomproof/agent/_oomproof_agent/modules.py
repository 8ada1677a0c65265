"""Which module's `forward` is running.

Global forward hooks do not change what is allocated (backward hooks would). They run on the script's main thread and,
when checkpointed parts are computed again, on the engine's thread while the main one waits; any other thread would
write over the words that those two use, so it is ignored.
"""

from __future__ import annotations

import threading
import weakref
from threading import get_ident
from typing import Any, Callable, Dict, List, Tuple

from .device import Device
from .names import BACKWARD, MODULE_WORD
from .phases import Phases

# Modules made anew in every forward pass would have the whole model searched for them each time.
_FRUITLESS_SEARCHES = 3


class Modules:
    """A stack of the modules that are running, and their ids in the profile."""

    def __init__(self, device: Device, phases: Phases) -> None:
        self._device = device
        self._phases = phases
        self._main = threading.main_thread().ident
        self._ids: Dict[int, int] = {}
        self._watches: Dict[int, Any] = {}
        self._fruitless: Dict[int, int] = {}
        self._stack: List[Tuple[int, int, Any]] = []
        self._handles: List[Any] = []
        self.on_open: List[Callable[[Any], None]] = []
        self.on_close: List[Callable[[Any], None]] = []
        self.on_change: List[Callable[[Any], None]] = []

    def watch(self) -> None:
        from torch.nn.modules import module

        self._handles = [
            module.register_module_forward_pre_hook(self._before),
            module.register_module_forward_hook(self._after, always_call=True),
        ]

    def step_aside(self) -> None:
        """Removes the hooks for good."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        self.clear()

    def clear(self) -> None:
        """Nothing is running, whatever was interrupted."""
        del self._stack[:]
        self._device.words[MODULE_WORD] = 0

    def _mine(self) -> bool:
        return get_ident() == self._main or self._phases.current == BACKWARD

    def _before(self, module: Any, _args: Any) -> None:
        if not self._mine():
            return
        stack = self._stack
        if not stack and self._phases.current != BACKWARD:
            for action in self.on_open:
                action(module)
        key = id(module)
        number = self._ids.get(key)
        if number is None:
            number = self._identify(module)
        stack.append((key, number, module if not stack else None))
        self._device.words[MODULE_WORD] = number

    def _after(self, module: Any, _args: Any, _result: Any) -> None:
        if not self._mine():
            return
        stack = self._stack
        key = id(module)
        if stack and stack[-1][0] == key:
            stack.pop()
        elif not _unwind(stack, key):
            return
        self._device.words[MODULE_WORD] = stack[-1][1] if stack else 0
        if not stack and self._phases.current != BACKWARD:
            for action in self.on_close:
                action(module)

    def _identify(self, module: Any) -> int:
        root = self._stack[0][2] if self._stack else module
        if root is not None and self._fruitless.get(id(root), 0) < _FRUITLESS_SEARCHES:
            for path, part in root.named_modules():
                if id(part) not in self._ids:
                    self._remember(part, path)
            if id(module) in self._ids:
                for action in self.on_change:
                    action(root)
            else:
                self._fruitless[id(root)] = self._fruitless.get(id(root), 0) + 1
        if id(module) not in self._ids:
            self._remember(module, "")
        return self._ids[id(module)]

    def _remember(self, module: Any, path: str) -> None:
        key = id(module)

        def forget(_: Any) -> None:
            self._ids.pop(key, None)
            self._watches.pop(key, None)
            self._fruitless.pop(key, None)

        # An identity is given to another object once its owner is gone.
        self._watches[key] = weakref.ref(module, forget)
        self._ids[key] = self._device.module(path, type(module).__name__)


def _unwind(stack: List[Tuple[int, int, Any]], key: int) -> bool:
    """Removes the module `key` and those above it, which an interrupt left there."""
    for position in range(len(stack) - 1, -1, -1):
        if stack[position][0] == key:
            del stack[position:]
            return True
    return False
