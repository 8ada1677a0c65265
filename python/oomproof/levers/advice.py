"""Changes that only a person can make; as levers they say so.

They have names because reports propose them.
"""

from __future__ import annotations

from typing import Optional

from .context import Context, Moment
from .lever import Undo, nothing
from .parameters import Parameters


class Advice:
    """A lever that never applies."""

    MOMENT = Moment.START

    def __init__(self, name: str, reason: str) -> None:
        self.NAME = name
        self._reason = reason

    def check(self, _context: Context, _parameters: Parameters, /) -> Optional[str]:
        return self._reason

    def apply(self, _context: Context, _parameters: Parameters, /) -> Undo:
        return nothing


FREE_EARLY = Advice("free-early", "which variable to let go is a change of the script's own lines")
PRUNE = Advice("prune", "which channels a model can do without is found by training it")
LARGER_CARD = Advice("larger-card", "it is another card, and no change of the script")
