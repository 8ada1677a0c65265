"""A state that could not be loaded, for models that would copy from it.

Scripts take such a state apart (`state["model"]`, `state.pop("head")`) before they give it to a model, so every part
of it is absent too; only the copy itself is left out, which allocates nothing.
"""

from __future__ import annotations

from typing import Any, Dict


class AbsentState(Dict[str, Any]):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def __missing__(self, key: str) -> AbsentState:
        return AbsentState(self.name)

    def get(self, key: str, default: Any = None) -> Any:
        return AbsentState(self.name)

    def pop(self, key: str, *default: Any) -> Any:
        return AbsentState(self.name)
