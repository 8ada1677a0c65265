"""Containers with tensors in them, as models take and give them.

Models of libraries return objects that are mappings with more to them, so a container is rebuilt as what it was.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Iterator, Mapping


def mapped(torch: Any, value: Any, function: Callable[[Any], Any]) -> Any:
    """`value` with each tensor replaced by what `function` makes of it."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, Mapping):
        named = {key: mapped(torch, part, function) for key, part in value.items()}
        if type(value) is dict:
            return named
        changed = copy.copy(value)
        for key, part in named.items():
            changed[key] = part  # type: ignore[index]
        return changed
    if isinstance(value, (list, tuple)):
        parts = [mapped(torch, part, function) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def tensors(torch: Any, value: Any) -> Iterator[Any]:
    """The tensors of `value`, in the order in which `mapped` meets them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors(torch, part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(torch, part)
