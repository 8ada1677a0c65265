"""Getting out of the compiler's way.

Under a function mode or with hooks that call foreign code nothing compiles into one graph, and the figures would be
those of another program. So the first request to compile removes both for good and says so in the profile.
"""

from __future__ import annotations

import functools
from typing import Any, Callable


class Compiling:
    """Calls `step_aside` once, before the script first compiles."""

    def __init__(self, step_aside: Callable[[str], None]) -> None:
        self._step_aside = step_aside
        self._done = False

    def watch(self, torch: Any) -> None:
        torch.compile = self._wrap(torch.compile, "torch.compile")
        module = torch.nn.Module
        if hasattr(module, "compile"):
            module.compile = self._wrap(module.compile, "Module.compile")

    def watch_export(self, export: Any) -> None:
        if hasattr(export, "export"):
            export.export = self._wrap(export.export, "torch.export.export")

    def _wrap(self, function: Any, name: str) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if not self._done:
                self._done = True
                self._step_aside(name)
            return function(*args, **kwargs)

        return wrapped
