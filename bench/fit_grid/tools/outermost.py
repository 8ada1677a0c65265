"""The moment at which a tool is applied: the outermost module is there, its optimizer too, and nothing has run yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def at_first_forward(act: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]) -> None:
    """Has `act` be given the outermost module and its arguments just before it runs for the first time."""
    from torch import nn

    usual = nn.Module.__call__

    def call(module: Any, *arguments: Any, **options: Any) -> Any:
        nn.Module.__call__ = usual
        act(module, arguments, options)
        return module(*arguments, **options)

    nn.Module.__call__ = call
