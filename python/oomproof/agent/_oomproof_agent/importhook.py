"""Runs code before and after a module's own code, when the script first imports it.

Asking whether a module exists (`importlib.util.find_spec`) is not importing it, and other code reads the loader's
type, so the finder returns the true spec and only its loader's `exec_module` is shadowed, for one call.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set


class Action(NamedTuple):
    before: Optional[Callable[[], None]]
    after: Optional[Callable[[Any], None]]


class ImportHook:
    """A finder at the head of `sys.meta_path`, for the modules that were asked for and no others."""

    def __init__(self) -> None:
        self._actions: Dict[str, List[Action]] = {}
        # Another finder of this kind asks us back.
        self._looking: Set[str] = set()

    def on(
        self,
        module: str,
        *,
        before: Optional[Callable[[], None]] = None,
        after: Optional[Callable[[Any], None]] = None,
    ) -> None:
        """Registers what to do around the import of `module`."""
        self._actions.setdefault(module, []).append(Action(before, after))

    def when_loaded(self, module: str, action: Callable[[Any], None]) -> None:
        """Calls `action` with the module now, or when it is imported."""
        if module in sys.modules:
            action(sys.modules[module])
        else:
            self.on(module, after=action)

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None, target: Any = None) -> Optional[ModuleSpec]:
        if name not in self._actions or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = self._ask_others(name, path, target)
        finally:
            self._looking.discard(name)
        if spec is not None:
            self._shadow(name, spec)
        return spec

    def _ask_others(self, name: str, path: Optional[Sequence[str]], target: Any) -> Optional[ModuleSpec]:
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _shadow(self, name: str, spec: ModuleSpec) -> None:
        loader = spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return
        original = loader.exec_module

        def exec_module(module: Any) -> None:
            try:
                del loader.exec_module
            except AttributeError:
                pass
            actions = self._actions.pop(name, [])
            for action in actions:
                if action.before is not None:
                    action.before()
            original(module)
            for action in actions:
                if action.after is not None:
                    action.after(module)

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:
            # A loader without a `__dict__` cannot be shadowed; the module is then imported as if unwatched.
            return
