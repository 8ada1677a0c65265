"""Why a plan is not applied."""

from __future__ import annotations

from typing import Optional


class PlanRefused(ValueError):  # noqa: N818 - what happened, as with `StopIteration`
    """A plan does not match the script, or one of its levers would change what is computed.

    Attributes:
        lever: The name of the lever, or `None` when the plan as a whole does not match.
        reason: One sentence.
    """

    def __init__(self, reason: str, *, lever: Optional[str] = None) -> None:
        super().__init__(reason if lever is None else f"`{lever}`: {reason}")
        self.lever = lever
        self.reason = reason
