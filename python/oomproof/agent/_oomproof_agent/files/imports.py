"""Changes to modules that are not there yet when the run begins.

Importing torch or a hub client just to change it would cost seconds, so a finder in front of the others calls back
when a module that is asked for has been executed.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Dict, Optional, Sequence, Set

Change = Callable[[ModuleType], None]


class AfterImport:
    """Calls `changes[name]` after the module `name` has been executed."""

    def __init__(self, changes: Dict[str, Change]) -> None:
        self._changes = changes
        self._looking: Set[str] = set()

    def install(self) -> None:
        for name, change in self._changes.items():
            module = sys.modules.get(name)
            if module is not None:
                change(module)
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if name not in self._changes or name in self._looking:
            return None
        self._looking.add(name)
        spec: Optional[ModuleSpec]
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                if find is None or finder is self:
                    continue
                spec = find(name, path, target)
                if spec is not None:
                    break
            else:
                return None
        finally:
            self._looking.discard(name)
        if spec.loader is not None and hasattr(spec.loader, "exec_module"):
            self._watch(spec.loader, self._changes[name])
        return spec

    @staticmethod
    def _watch(loader: Any, change: Change) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            change(module)

        # The loader stays what it is: `inspect` and `pkgutil` look at its class.
        try:
            loader.exec_module = exec_module
        except AttributeError:
            return
