"""Replaced attributes, and the way back.

Levers act by standing in for functions and attributes of torch and of the script's objects. What was there before is
kept here and nowhere else, so that undoing is the same few lines for all of them. An attribute that an object had only
from its class is removed again and not set: a bound method kept in the object's own dictionary would be copied and
saved with it.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List

_ABSENT = object()


class Patches:
    """Sets attributes and items, and restores them in the opposite order."""

    def __init__(self) -> None:
        self._undo: List[Callable[[], None]] = []

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        before = vars(owner).get(name, _ABSENT) if hasattr(owner, "__dict__") else getattr(owner, name, _ABSENT)
        setattr(owner, name, value)

        def restore() -> None:
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._undo.append(restore)

    def item(self, owner: Dict[Any, Any], key: Any, value: Any) -> None:
        before = owner.get(key, _ABSENT)
        owner[key] = value

        def restore() -> None:
            if before is _ABSENT:
                owner.pop(key, None)
            else:
                owner[key] = before

        self._undo.append(restore)

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> bool:
        """Replaces `owner.name` by `make(owner.name)`; false where there is no such name."""
        original = getattr(owner, name, None)
        if original is None:
            return False
        self.attribute(owner, name, make(original))
        return True

    def everywhere(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replaces the function `owner.name` there and in all modules that imported it by its name."""
        original = getattr(owner, name, None)
        if original is None:
            return
        replacement = make(original)
        for module in list(sys.modules.values()):
            # Some modules make their attributes when they are asked for; those that exist are enough.
            names = [key for key, value in list(getattr(module, "__dict__", {}).items()) if value is original]
            for key in names:
                self.attribute(module, key, replacement)
        if getattr(owner, name) is original:
            self.attribute(owner, name, replacement)

    def later(self, action: Callable[[], None]) -> None:
        """Runs `action` when everything is undone."""
        self._undo.append(action)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()
