"""What every lever's module has."""

from __future__ import annotations

from typing import Any, Callable, Optional, Protocol

from .context import Context, Moment
from .parameters import Parameters

Undo = Callable[[], None]


class Lever(Protocol):
    """One change that saves memory.

    A lever is a module; these are its names.
    """

    @property
    def NAME(self) -> str: ...  # noqa: N802

    @property
    def MOMENT(self) -> Moment: ...  # noqa: N802

    def check(self, context: Context, parameters: Parameters, /) -> Optional[str]:
        """Why it cannot be applied here, as a sentence; `None` when it can."""

    def apply(self, context: Context, parameters: Parameters, /) -> Undo:
        """Applies it, and returns what takes it back."""


def nothing() -> None:
    """There is nothing to take back."""


def refused_by(action: Callable[[], Any]) -> Optional[str]:
    """The reason for which `action` refuses."""
    from .refusal import PlanRefused

    try:
        action()
    except PlanRefused as error:
        return error.reason
    return None
