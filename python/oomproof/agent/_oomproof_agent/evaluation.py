"""Evaluation as plans need it: what the model that is trained takes where no backward pass follows.

What an evaluation does with the model's result belongs to it, and has no end of its own to see: it lasts until the
next training pass. It may lie between two steps, of which its peak is no part.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional

from .intervals import Intervals
from .names import BACKWARD
from .phases import Phases


class _Seen:
    """Calls of one module."""

    def __init__(self, module: Any) -> None:
        self.module = weakref.ref(module)
        self.parameters = sum(int(entry.numel()) for entry in module.parameters())
        self.grad_enabled = False
        self.batch: Optional[int] = None
        self.peak = 0


class Evaluation:
    """Watches outermost calls of modules in the mode of `eval()`, or without gradients."""

    def __init__(self, phases: Phases, intervals: Intervals, torch: Any, rows: Callable[[Any], Optional[int]]) -> None:
        self._phases = phases
        self._intervals = intervals
        self._torch = torch
        self._rows = rows
        self._handles: List[Any] = []
        self._seen: Dict[int, _Seen] = {}
        self._current: Optional[_Seen] = None
        self._depth = 0
        self._highest = 0
        # Rows of the batch that a loader gave last, for models that are called with names alone.
        self.loader_rows: Optional[int] = None

    def watch(self) -> None:
        from torch.nn.modules import module

        self._handles = [
            module.register_module_forward_pre_hook(self._before),
            module.register_module_forward_hook(self._after, always_call=True),
        ]

    def leave(self) -> None:
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        self._depth = 0

    def _before(self, module: Any, args: Any) -> None:
        if self._phases.current == BACKWARD:
            return
        self._depth += 1
        if self._depth > 1:
            return
        if module.training and self._torch.is_grad_enabled():
            self.end()
        else:
            self._begin(module, args)

    def _after(self, _module: Any, _args: Any, _result: Any) -> None:
        if self._phases.current != BACKWARD:
            self._depth = max(0, self._depth - 1)

    def _begin(self, module: Any, args: Any) -> None:
        seen = self._seen.get(id(module))
        if seen is None or seen.module() is not module:
            seen = _Seen(module)
            if seen.parameters == 0:
                return
            self._seen[id(module)] = seen
        if self._current is None:
            self._intervals.mark()
            self._highest = self._intervals.highest
        else:
            self._mark()
        self._current = seen
        seen.grad_enabled |= bool(self._torch.is_grad_enabled())
        rows = self._rows(args) or self.loader_rows
        if rows is not None:
            seen.batch = max(rows, seen.batch or 0)

    def _mark(self) -> None:
        if self._current is not None:
            self._current.peak = max(self._current.peak, self._intervals.mark())

    def end(self) -> None:
        """Training goes on, or all is over."""
        if self._current is None:
            return
        self._mark()
        self._current = None
        self._intervals.highest = self._highest

    def of(self, root: Any) -> Optional[Dict[str, Any]]:
        """What was seen of the model that is trained, whole; another model's calls are no evaluation of it."""
        if root is None:
            return None
        parameters = sum(int(entry.numel()) for entry in root.parameters())
        for part in root.modules():
            seen = self._seen.get(id(part))
            if seen is not None and seen.module() is part and seen.parameters == parameters:
                return {"grad_enabled": seen.grad_enabled, "batch": seen.batch, "peak": seen.peak}
        return None
