"""Parameters of a lever, as the plan gives them.

A plan is written by people too, so each parameter is checked where it is read, and one that a lever does not know is an
error: what it was meant to do would silently not happen.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence

from .refusal import PlanRefused

Parameters = Mapping[str, Any]


def known(parameters: Parameters, *names: str) -> None:
    """Refuses parameters other than `names`."""
    for name in parameters:
        if name not in names:
            raise PlanRefused(f"there is no parameter `{name}`")


def count(parameters: Parameters, name: str, *, least: int) -> int:
    """A whole number of at least `least`, which has to be given."""
    value = parameters.get(name)
    if type(value) is not int or value < least:
        raise PlanRefused(f"`{name}` is a whole number from {least} on, and not {value!r}")
    return value


def one_of(parameters: Parameters, name: str, choices: Sequence[str], *, default: str) -> str:
    value = parameters.get(name, default)
    if value not in choices:
        raise PlanRefused(f"`{name}` is one of {', '.join(choices)}, and not {value!r}")
    return str(value)


def paths(parameters: Parameters, name: str) -> List[str]:
    """Paths of modules; an empty list where there is no such parameter."""
    value = parameters.get(name, [])
    if not isinstance(value, (list, tuple)) or not all(isinstance(path, str) for path in value):
        raise PlanRefused(f"`{name}` is a list of paths of modules, and not {value!r}")
    return list(value)
